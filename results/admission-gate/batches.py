"""ENTITY's snapshots 1 to 4 as batches: snapshot1.tsv to snapshot4.tsv in the working folder."""

from pathlib import Path

import meor

stream = meor.open_stream("ENTITY")
for update in stream.updates:
    with Path(f"snapshot{update}.tsv").open("w") as file:
        print("head", "relation", "tail", "split", sep="\t", file=file)
        for split in ("train", "valid", "test"):
            for head, relation, tail in stream.snapshots[update].facts([split]).tolist():
                ends = (
                    stream.entities.label(head),
                    stream.relations.label(relation),
                    stream.entities.label(tail),
                )
                print(*ends, split, sep="\t", file=file)
