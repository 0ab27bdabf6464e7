"""What a person looks at: one self-contained HTML file of a run or a study."""
