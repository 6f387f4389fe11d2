#!/bin/sh
# Jira Cloud for Vik, with curl and jq.
#
#   tracker.sh list              prints the issues of the project with the label, as a JSON array
#   tracker.sh show KEY          prints one issue, whatever its status; without the label its state is "none"
#   tracker.sh move KEY FROM TO  takes the transition of an issue that leads to a status, unless it has left the first one
#
# Environment: JIRA_BASE_URL (such as https://example.atlassian.net), JIRA_EMAIL and JIRA_API_TOKEN, JIRA_PROJECT (the key
# of the project, such as ENG), and, if you like, JIRA_LABEL (default: vik): only issues that have this label are taken.
# Jira Data Center: replace search/jql by search, and the line `user = …` by `header = "Authorization: Bearer …"`.
set -eu
: "${JIRA_BASE_URL:?set it to the address of Jira, such as https://example.atlassian.net}"
: "${JIRA_EMAIL:?set it to the mail address of your account}"
: "${JIRA_API_TOKEN:?set it to an API token of your account}"
api="${JIRA_BASE_URL%/}/rest/api/2"

# The token goes to curl on stdin, so that it does not show in the process list.
ask() { # ARGUMENTS OF CURL…
  printf 'user = "%s:%s"\n' "$JIRA_EMAIL" "$JIRA_API_TOKEN" |
    curl --config - --silent --show-error --fail --max-time 50 --header 'Accept: application/json' "$@"
}

# What Vik wants to know of an issue.
fields=summary,description,status,priority,labels,created,creator
tag=${JIRA_LABEL:-vik}
snapshot='def snapshot: {
  id: .key, title: .fields.summary, description: (.fields.description // ""),
  state: (if any(.fields.labels[]; . == $tag) then .fields.status.name else "none" end),
  author: (.fields.creator.emailAddress // .fields.creator.accountId),
  url: ($base + "/browse/" + .key), labels: .fields.labels,
  priority: (.fields.priority.id // "9" | tonumber),
  created_at: (.fields.created | sub("(?<h>[+-][0-9]{2})(?<m>[0-9]{2})$"; "\(.h):\(.m)"))
};'

list() {
  : "${JIRA_PROJECT:?set it to the key of your project, such as ENG}"
  pages='' page=''
  while
    found=$(ask --get "$api/search/jql" --data maxResults=100 ${page:+--data-urlencode "nextPageToken=$page"} \
      --data "fields=$fields" \
      --data-urlencode "jql=project = \"$JIRA_PROJECT\" AND labels = \"$tag\" AND statusCategory != Done ORDER BY created") || exit
    pages="$pages$found"
    page=$(printf '%s' "$found" | jq -r '.nextPageToken // ""')
    [ -n "$page" ]
  do :; done
  printf '%s' "$pages" | jq -sc --arg base "${JIRA_BASE_URL%/}" --arg tag "$tag" "$snapshot [.[].issues[] | snapshot]"
}

show() { # KEY
  found=$(ask --get "$api/issue/$1" --data "fields=$fields")
  printf '%s' "$found" | jq -c --arg base "${JIRA_BASE_URL%/}" --arg tag "$tag" "$snapshot snapshot"
}

move() { # KEY FROM TO
  seen=$(show "$1")
  now=$(printf '%s' "$seen" | jq -r .state)
  if [ "$now" != "$2" ]; then
    echo "$1 is in \"$now\", not in \"$2\"; it was not moved" >&2
    return
  fi
  transitions=$(ask "$api/issue/$1/transitions")
  id=$(printf '%s' "$transitions" | jq -r --arg name "$3" '[.transitions[] | select(.to.name == $name) | .id] | first // ""')
  if [ -z "$id" ]; then
    echo "no transition leads from \"$now\" to \"$3\"; there are: $(printf '%s' "$transitions" | jq -r '[.transitions[].to.name] | join(", ")')" >&2
    exit 1
  fi
  ask --header 'Content-Type: application/json' --data-binary "$(jq -nc --arg id "$id" '{transition: {$id}}')" \
    "$api/issue/$1/transitions" >/dev/null
}

case "${1-}" in
  show | move)
    # The key becomes part of an address.
    case "${2:?KEY}" in *[!A-Za-z0-9_-]*) echo "\"$2\" is no key of an issue" >&2; exit 2 ;; esac ;;
esac
case "${1-}" in
  list) list ;;
  show) show "$2" ;;
  move)
    move "$2" "${3:?FROM}" "${4:?TO}" ;;
  *) echo "usage: tracker.sh list | show KEY | move KEY FROM TO" >&2; exit 2 ;;
esac
