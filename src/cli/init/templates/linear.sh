#!/bin/sh
# Linear for Vik, with curl and jq.
#
#   tracker.sh list              prints the issues of the team with the label, as a JSON array
#   tracker.sh show ID           prints one issue, whatever its state; without the label its state is "none"
#   tracker.sh move ID FROM TO   moves an issue to another state of its team, unless it has left the first one
#
# Environment: LINEAR_API_KEY (a personal API key), LINEAR_TEAM (the key of the team, such as ENG), and, if you like,
# LINEAR_LABEL (default: vik): only issues that have this label are taken.
set -eu
: "${LINEAR_API_KEY:?set it to a personal API key of Linear}"

# The key goes to curl on stdin, so that it does not show in the process list.
ask() { # QUERY VARIABLES
  body=$(jq -nc --arg query "$1" --argjson variables "$2" '{$query, $variables}')
  answer=$(printf 'header = "Authorization: %s"\n' "$LINEAR_API_KEY" |
    curl --config - --silent --show-error --fail --max-time 50 \
      --header 'Content-Type: application/json' --data-binary "$body" https://api.linear.app/graphql)
  printf '%s' "$answer" | jq -ce 'if .errors then error(.errors[0].message) else .data end'
}

# What Vik wants to know of an issue. Priority 0 is "none" at Linear; here it goes last.
snapshot='def snapshot: {
  id: .identifier, title, description: (.description // ""), url, created_at: .createdAt,
  author: .creator.email, priority: (if .priority == 0 then 5 else .priority end),
  labels: [.labels.nodes[].name],
  state: (if any(.labels.nodes[]; .name == $tag) then .state.name else "none" end)
};'
tag=${LINEAR_LABEL:-vik}

list() {
  : "${LINEAR_TEAM:?set it to the key of your team, such as ENG}"
  pages='' after=null
  while
    variables=$(jq -nc --arg team "$LINEAR_TEAM" --arg tag "$tag" --argjson after "$after" '{$team, $tag, $after}')
    # shellcheck disable=SC2016 # the dollars are GraphQL's
    data=$(ask 'query($team: String!, $tag: String!, $after: String) {
      issues(first: 100, after: $after, filter: {
        team: { key: { eq: $team } }, labels: { name: { eq: $tag } },
        state: { type: { nin: ["completed", "canceled"] } }
      }) {
        pageInfo { hasNextPage endCursor }
        nodes {
          identifier title description priority createdAt url creator { email } state { name } labels { nodes { name } }
        }
      }
    }' "$variables") || exit
    pages="$pages$data"
    after=$(printf '%s' "$data" | jq -c '.issues.pageInfo | if .hasNextPage then .endCursor else null end')
    [ "$after" != null ]
  do :; done
  printf '%s' "$pages" | jq -sc --arg tag "$tag" "$snapshot [.[].issues.nodes[] | snapshot]"
}

show() { # ID
  # shellcheck disable=SC2016
  data=$(ask 'query($id: String!) {
    issue(id: $id) { identifier title description priority createdAt url creator { email } state { name } labels { nodes { name } } }
  }' "$(jq -nc --arg id "$1" '{$id}')")
  printf '%s' "$data" | jq -c --arg tag "$tag" "$snapshot .issue | snapshot"
}

move() { # ID FROM TO
  seen=$(show "$1")
  now=$(printf '%s' "$seen" | jq -r .state)
  if [ "$now" != "$2" ]; then
    echo "$1 is in \"$now\", not in \"$2\"; it was not moved" >&2
    return
  fi
  # shellcheck disable=SC2016
  issue=$(ask 'query($id: String!) { issue(id: $id) { id team { states { nodes { id name } } } } }' \
    "$(jq -nc --arg id "$1" '{$id}')")
  state=$(printf '%s' "$issue" | jq -r --arg name "$3" '[.issue.team.states.nodes[] | select(.name == $name) | .id] | first // ""')
  if [ -z "$state" ]; then
    echo "the team has no state \"$3\"; it has: $(printf '%s' "$issue" | jq -r '[.issue.team.states.nodes[].name] | join(", ")')" >&2
    exit 1
  fi
  # shellcheck disable=SC2016
  ask 'mutation($id: String!, $state: String!) { issueUpdate(id: $id, input: { stateId: $state }) { success } }' \
    "$(printf '%s' "$issue" | jq -c --arg state "$state" '{id: .issue.id, $state}')" |
    jq -e '.issueUpdate.success' >/dev/null
}

case "${1-}" in
  list) list ;;
  show) show "${2:?ID}" ;;
  move) move "${2:?ID}" "${3:?FROM}" "${4:?TO}" ;;
  *) echo "usage: tracker.sh list | show ID | move ID FROM TO" >&2; exit 2 ;;
esac
