"""The same vehicles pass; who gets more out of them? Rounds by MOB-FL's plan, waiting for all, or no rounds."""

import tempfile
from pathlib import Path

import mobfl

SWEEP = """
[[runs]]
tasks = ["beams"]
plans = ["mobfl", "1,best", "wait-for-all", "fedasync", "fedbuff:24,buffer=3"]
options = {model = "lidar2d-small", training_samples = 1000, validation_samples = 200}
set = {"training.loss_scale" = "sample", "training.samples_per_vehicle" = 256, "training.duration_s" = 240}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "sweep.toml", Path(folder) / "out"
        file.write_text(SWEEP)
        mobfl.run_sweep(mobfl.load_sweep(file), out)
        runs, _ = mobfl.find_runs(out)
        came = mobfl.Results(runs).query(
            "SELECT policy, local_steps, rounds, uploads, uploads * local_steps AS steps, best_top_10 > 0.6 AS learnt"
            " FROM runs ORDER BY policy, local_steps"
        )
    print(f"{'server':<14}{'H':>4}{'changes':>9}{'uploads':>9}{'local steps':>13}  top-10 above 60 %")
    for row in came.to_pylist():
        numbers = f"{row['local_steps']:>4}{row['rounds']:>9}{row['uploads']:>9}{row['steps']:>13}"
        print(f"{row['policy']:<14}{numbers}  {'yes' if row['learnt'] else 'no'}")


if __name__ == "__main__":
    main()
