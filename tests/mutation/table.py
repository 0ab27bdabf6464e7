"""Which tests try a mutant of which module: the one place to change when modules or tests move."""

# Modules below src/meor (the first line that names one counts); pytest's arguments below tests/; and whether
# kernels are compiled. Plain Python is quicker where tests are small, and needed where kernels of other
# modules call them, which numba would not notice. Properties are checked with a twentieth of their examples.
PENALTY = "objective/test_records.py objective/test_penalty.py objective/test_balance.py -k 'not clumps'"
DAMAGE = "crash/test_checkpoint_damage.py -k 'not flipped'"
TABLE = [
    ("cohort", "golden cohort properties/test_matched_references.py -k 'not uniform'", False),
    ("objective/scale.py objective/variants.py", "objective/test_scale.py objective/test_variants.py", True),
    ("objective/pressure.py", "objective/test_pressure.py properties/test_aggregate.py", True),
    ("objective/sparse.py", "objective/test_penalty.py", True),
    ("objective", f"{PENALTY} properties/test_objective.py", True),
    ("evaluation/calibra*", "evaluation/test_calibration.py", True),
    ("evaluation/audit.py", "cli/test_audit.py", True),
    ("evaluation", "evaluation properties/test_endpoints.py -k 'not planted and not calibra'", True),
    ("study/bounds.py study/effects.py", "study/test_bounds.py study/test_effects.py", True),
    ("run/checkpoint.py", f"run/test_checkpoint.py {DAMAGE}", True),
    ("run/disk.py run/folder.py", f"run/test_folder.py {DAMAGE}", True),
    ("host/adam.py host/refine.py", "host/test_adam.py host/test_refine.py", True),
    ("host/buffer.py", "golden host/test_buffer.py", True),
    ("host/negatives.py host/replay.py", "golden host/test_negatives.py host/test_replay.py", True),
]
