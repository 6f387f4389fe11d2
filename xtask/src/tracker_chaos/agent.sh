# The agent: counts its run, fails once where that is planned, and commits a file.
set -eu
root=$1 piece=$VIK_STAGE-$VIK_ISSUE_ID
report() { sh "$root/report.sh" "$1" "$VIK_ATTEMPT_ID"; }
report run
while [ -e "$root/gates/$piece" ]; do sleep 0.05; done
if mv "$root/failures/$piece" "$root/failures/$piece.done" 2>/dev/null; then
  report fail
  echo 'a planned failure'
  exit 1
fi
sleep 1
# An interrupted attempt may have left its commit, or a lock.
rm -f .git/index.lock
git cat-file -e "HEAD:$piece" 2>/dev/null && exit
echo done >"$piece"
git add "$piece"
git commit --quiet -m "$piece"
