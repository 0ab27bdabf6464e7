"""Which tests try a mutant of which module: the one place to change when modules or tests move."""

# Modules below src/meor (the first line that names one counts); pytest's arguments below tests/; and whether
# kernels are compiled. Plain Python is quicker where tests are small, and needed where kernels of other
# modules call them, which numba would not notice. Properties are checked with a twentieth of their examples.
PENALTY = (
    "methods/test_records.py methods/test_penalty.py methods/test_beside.py methods/test_coefficient.py "
    "-k 'not clumps'"
)
DRAWS = "training/test_buffer.py training/test_negatives.py hosts/test_replay.py hosts/test_contract.py"
EQUATIONS = "methods/test_scale.py methods/test_pressure.py properties/test_aggregate.py"
DAMAGE = "crash/test_checkpoint_damage.py -k 'not flipped'"
TABLE = [
    ("cohort", "golden cohort properties/test_matched_references.py -k 'not uniform'", False),
    ("methods/calibra*", "methods/test_calibration.py backbone/test_own_backbone.py", True),
    ("methods/coefficient.py", "methods/test_coefficient.py run/test_control.py", True),
    ("methods/cap.py", "methods/test_cap.py", True),
    ("methods/registry.py", "methods/test_registry.py methods/test_variants.py", True),
    ("methods/equations.py", EQUATIONS, True),
    (
        "methods/sparse.py",
        "methods/test_penalty.py methods/test_beside.py backbone/test_own_backbone.py",
        True,
    ),
    ("methods/kernels.py", f"methods/test_pressure.py {PENALTY} properties/test_objective.py", True),
    ("methods", f"{PENALTY} golden properties/test_objective.py", True),
    (
        "evaluation/audit.py evaluation/groups.py",
        "evaluation/test_groups.py evaluation/test_blame.py cli/test_audit.py",
        True,
    ),
    ("evaluation", "evaluation properties/test_endpoints.py properties/test_ranks.py -k 'not planted'", True),
    (
        "study/bounds.py study/effects.py",
        "study/test_bounds.py study/test_effects.py study/test_partial.py",
        True,
    ),
    ("run/checkpoint.py", f"run/test_checkpoint.py {DAMAGE}", True),
    ("storage/disk.py run/folder.py", f"storage/test_disk.py run/test_folder.py {DAMAGE}", True),
    (
        "training/adam.py training/refine.py",
        "training/test_adam.py training/test_refine.py methods/test_cap.py",
        True,
    ),
    ("training/draws.py hosts/replay.py", f"golden {DRAWS}", True),
]
