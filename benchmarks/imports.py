"""How many modules of Slacktide the process of `slacktide run` has loaded when its job has ended.

`python -m benchmarks imports`: the NumPy example on a fast clock, in a process and a folder of its own. Each
module costs a start some time and a reader of a traceback some thought. A minute, and more where kernels must
be compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
JOB = ROOT / "examples" / "numpy" / "job.yaml"
SPEED = "5000"
"""Fast enough to end soon. The job is late then, which loads what a job in time loads as well."""
CODE = """
import json, sys
from slacktide.cli import run
run(sys.argv[2:])
names = [name for name in sys.modules if name.split(".")[0] == "slacktide"]
open(sys.argv[1], "w").write(json.dumps(names))
"""


def loaded() -> list[str]:
    """Run the job and return the names of the modules."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "modules.json"
        environment = {**os.environ, "SLACKTIDE_HOME": folder}
        words = [sys.executable, "-c", CODE, str(out), "run", str(JOB), "--speed", SPEED]
        subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=True)
        names: list[str] = json.loads(out.read_text())
        return names


def main() -> None:
    """Print the number of modules, of all and of each package."""
    names = loaded()
    packages = Counter(name.split(".")[1] for name in names if "." in name)
    print(f"slacktide run has loaded {len(names)} modules of Slacktide when its job has ended; aim: 250")
    print("  " + ", ".join(f"{package} {count}" for package, count in packages.most_common()))


if __name__ == "__main__":
    main()
