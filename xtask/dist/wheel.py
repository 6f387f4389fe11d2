"""Writes a wheel that contains a prefix: the files of `bin` as scripts, the others as data.

Usage: wheel.py NAME VERSION TAG PREFIX OUTPUT. The time of all files is SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path


def main(name, version, tag, prefix, output):
    prefix = Path(prefix)
    info, data = f"{name}-{version}.dist-info", f"{name}-{version}.data"
    # A zip file knows no time before 1980.
    moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    record = []

    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:

        def add(path, content, mode=0o644):
            entry = zipfile.ZipInfo(path, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")

        for path in sorted(prefix.rglob("*")):
            if path.is_file():
                relative = path.relative_to(prefix)
                is_script = relative.parts[0] == "bin"
                inside = f"scripts/{relative.name}" if is_script else f"data/{relative.as_posix()}"
                add(f"{data}/{inside}", path.read_bytes(), path.stat().st_mode & 0o777)
        documents = prefix / "share/doc/vik"
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"]:
            add(f"{info}/licenses/{licence}", (documents / licence).read_bytes())
        add(
            f"{info}/METADATA",
            (
                "Metadata-Version: 2.4\n"
                f"Name: {name.replace('_', '-')}\n"
                f"Version: {version}\n"
                "Summary: A daemon that turns an issue tracker into a work queue for coding agents\n"
                "License-Expression: MIT OR Apache-2.0\n"
                "License-File: LICENSE-APACHE\n"
                "License-File: LICENSE-MIT\n"
                "Project-URL: Repository, https://github.com/vik-sh/vik\n"
                "Requires-Python: >=3.8\n"
                "Description-Content-Type: text/markdown\n"
                "\n" + (documents / "README.md").read_text(encoding="utf-8")
            ).encode(),
        )
        add(
            f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: vik xtask\nRoot-Is-Purelib: false\n{tags}".encode(),
        )
        record.append(f"{info}/RECORD,,\n")
        entry = zipfile.ZipInfo(f"{info}/RECORD", moment)
        entry.external_attr = 0o100644 << 16
        wheel.writestr(entry, "".join(record))


main(*sys.argv[1:])
