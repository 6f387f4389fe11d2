# Reports a step of this stage, in one write.
printf '{"step": "%s", "issue": "%s", "stage": "%s", "id": "%s"}\n' \
  "$1" "$VIK_ISSUE_ID" "$VIK_STAGE" "$2" >>"${0%/*}/progress"
