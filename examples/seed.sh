#!/bin/sh
# seed.sh DIR: creates the working files of the example if they are missing: a copy of its issues, and a git
# repository of its sample project. Changes nothing outside of DIR.
set -eu

from=$(cd "$(dirname "$0")" && pwd)
to=$1
mkdir -p "$to"

# Each part is created under a temporary name and then renamed, so that an interruption leaves no partial part.
new=$to/new.$$
trap 'rm -rf "$new"' EXIT
rm -rf "$new"
mkdir "$new"

if [ ! -e "$to/issues" ]; then
    cp -R "$from/issues" "$new/issues"
    mv "$new/issues" "$to/issues"
fi

if [ ! -e "$to/sample.git" ]; then
    cp -R "$from/sample" "$new/sample"
    (
        cd "$new/sample"
        # Ignore the git settings of the user and a surrounding repository.
        unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
        export GIT_AUTHOR_NAME=Example GIT_AUTHOR_EMAIL=example@vik.invalid GIT_AUTHOR_DATE='2026-01-05T08:00:00Z'
        export GIT_COMMITTER_NAME=Example GIT_COMMITTER_EMAIL=example@vik.invalid
        export GIT_COMMITTER_DATE='2026-01-05T08:00:00Z'
        git -c init.defaultBranch=main init -q
        git add -A
        git commit -q -m 'Add up a list of amounts'
        git clone -q --bare . ../sample.git
    )
    mv "$new/sample.git" "$to/sample.git"
fi
