#!/bin/sh
# The agent of workflow.yml. Vik runs this file in the workspace of an issue, with the prompt on its stdin. Exit code 0
# is success; what it prints goes to the session log (`vik logs --issue ID`). The agent itself cannot change this file.
#
# Replace the lines below by the command of your agent, without questions to a person. If it reads the prompt from stdin:
#
#     exec my-agent --non-interactive
#
# If it takes the prompt as an argument:
#
#     exec my-agent --non-interactive "$(cat)"
#
# Programs, keys and folders that it needs are listed in workflow.yml (`env_pass`, `sandbox`).
set -eu
cat >/dev/null
echo "there is no agent in $0 yet: replace its last lines by the command of yours" >&2
exit 1
