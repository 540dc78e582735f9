"""Nine attacks on releases, each shown once: on a raw release, and on Tacit's release of the same at several epsilons.

Everybody in it is made up. Writes one picture an attack into the directory given, and prints the tables.

    python examples/attacks_on_releases.py pictures
    python examples/attacks_on_releases.py pictures --quick
"""

import sys
from pathlib import Path

from tacit.audit import demonstrations


def main(arguments: list[str]) -> None:
    places = [argument for argument in arguments if argument != "--quick"]
    folder = Path(places[0] if places else ".")
    folder.mkdir(parents=True, exist_ok=True)
    for shown in demonstrations.all(quick="--quick" in arguments):
        path = folder / f"{shown.name.replace(' ', '_').replace('-', '_')}.png"
        shown.picture(path)
        print(*shown.report_lines(), f"wrote {path.name}", "", sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
