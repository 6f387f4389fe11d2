#!/usr/bin/env python3
"""Linear as a tracker for Vik: the issues of one team. Python 3.9 or later; no packages.

settings, in the environment or as options before the verb:
  LINEAR_API_KEY  a personal API key; only in the environment
  LINEAR_TEAM     the key of the team: ENG for issues such as ENG-12
  LINEAR_LABEL    Vik takes only issues with this label; default: vik
  LINEAR_URL      the address of the API; default: https://api.linear.app/graphql

States are the states of the team. An open issue without the label is in the state `none`:
moving it to another state adds the label, and moving it to `none` removes the label.
"""

import argparse
import datetime
import email.utils
import hashlib
import http.client
import ipaddress
import json
import math
import os
import re
import ssl
import sys
import time
import unicodedata
import urllib.parse
import urllib.request
import uuid

# ---- The protocol: this part is the same in each of these programs. ----

FAILED, USAGE, NOT_FOUND, LATER = 1, 2, 66, 75
# How long `list` has issues that were closed.
LISTED_FOR = datetime.timedelta(days=14)
# How long the key of a created issue is searched for.
KEYS_KNOWN_FOR = datetime.timedelta(days=30)
# The longest time without a byte from the server, in seconds.
TIMEOUT = 30
# The wait after a refusal that names no time, in seconds.
DEFAULT_WAIT = 60
# Values that no message may contain.
SECRETS = []
# The limits that a warning was printed about.
WARNED = []


class CallError(Exception):
    """An exit code with a reason, and with a time to wait in seconds."""

    def __init__(self, code, reason, wait=None):
        super().__init__(reason)
        self.code = code
        self.wait = wait


def setting(option, *names, default=None):
    """Returns an option or the first of these environment variables that is set."""
    value = option or next(filter(None, map(os.environ.get, names)), default)
    if not value:
        raise CallError(FAILED, f"set {names[0]}")
    return value


def secret(name):
    """Returns a secret of the environment, which is masked in messages."""
    value = setting(None, name)
    SECRETS.append(value)
    if not (value.isascii() and value.isprintable()):
        raise CallError(FAILED, f"{name} contains characters that no token has")
    return value


def checked_url(url):
    """Returns an address that a token may be sent to, without a slash at the end."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise CallError(FAILED, "the URL of the tracker is invalid") from None
    has_more = parts.username or parts.password or parts.query or parts.fragment
    if not host or has_more or not url.isprintable() or " " in url:
        raise CallError(FAILED, "the URL of the tracker is invalid")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback):
        raise CallError(FAILED, "the URL of the tracker must begin with https://")
    return url.rstrip("/")


def request(method, url, headers, body=None):
    """Sends a request with JSON. Returns the status, the headers and the JSON of the response."""
    # Without the handlers for errors and redirects: a redirect could take the token elsewhere.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
    ):
        opener.add_handler(handler())
    headers = {"Accept": "application/json", "User-Agent": "vik-tracker", **headers}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    message = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with opener.open(message, timeout=TIMEOUT) as response:
            status, headers, text = response.status, response.headers, response.read()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise CallError(FAILED, f"the server cannot be trusted: {reason}") from None
        # The change may have been made: a repeated request finds that out.
        raise CallError(LATER, f"no complete response: {reason or 'disconnected'}") from None
    if status < 400:
        warn_of_limits(headers)
    try:
        return status, headers, json.loads(text) if text.strip() else None
    except ValueError:
        if 200 <= status < 300:
            raise CallError(FAILED, "the response is not JSON") from None
        return status, headers, None


def check_status(status, headers, reason):
    """Raises the error of a response that is no success."""
    if 200 <= status < 300:
        return
    reason = f"status {status}: {reason}" if reason else f"status {status}"
    if status == 429 or status >= 500:
        raise CallError(LATER, reason, wait(headers, DEFAULT_WAIT if status == 429 else None))
    if status in (404, 410):
        raise CallError(NOT_FOUND, reason)
    if 300 <= status < 400:
        reason += " (a redirect, which is not followed: correct the URL)"
    raise CallError(FAILED, reason)


def wait(headers, default):
    """Returns how many seconds the server asks to wait."""
    waits = [seconds_until(headers.get("Retry-After"))]
    for name in RESET_HEADERS:
        if headers.get(name.replace("Reset", "Remaining"), "0") == "0":
            waits.append(seconds_until(headers.get(name)))
    return max((seconds for seconds in waits if seconds is not None), default=default)


def warn_of_limits(headers):
    """Prints a warning, once, when less than a tenth of a limit is left."""
    for name in RESET_HEADERS:
        remaining = headers.get(name.replace("Reset", "Remaining")) or ""
        limit = headers.get(name.replace("Reset", "Limit")) or ""
        is_known = remaining.isdecimal() and limit.isdecimal()
        if WARNED or not is_known or int(remaining) * 10 >= int(limit):
            continue
        WARNED.append(name)
        unit = "points" if "Complexity" in name else "requests"
        seconds, until = seconds_until(headers.get(name)), ""
        # A time of the day says nothing about a day that is far away.
        if seconds is not None and seconds < 86_400:
            until = time.strftime(" until %H:%M UTC", time.gmtime(time.time() + seconds))
        counts = f"{int(remaining)} of {int(limit)} {unit}"
        print(f"warning: {NAME}: {counts} are left{until}", file=sys.stderr)


def seconds_until(text):
    """Reads a number of seconds, or a point in time in one of the forms that servers use."""
    text = (text or "").strip()
    now = time.time()
    try:
        if text.isdecimal():
            number = int(text)
            # A small number is a duration, a large one a Unix time in seconds or milliseconds.
            at = number / 1000 if number > 10**11 else number if number > 10**9 else now + number
        elif "," in text:
            at = email.utils.parsedate_to_datetime(text).timestamp()
        else:
            if re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z", text):
                text = text[:-1] + ":00Z"
            at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        return max(0, math.ceil(at - now))
    except (TypeError, ValueError, OverflowError):
        return None


def ago(duration):
    """Returns the time that long ago, in RFC 3339."""
    then = datetime.datetime.now(datetime.timezone.utc) - duration
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def marked(text, key):
    """Returns a text with the mark of a key as its last line."""
    text = text.rstrip()
    return f"{text}\n\n<!-- vik:{key} -->" if text else f"<!-- vik:{key} -->"


def is_marked(text, key):
    """Returns whether the last line is the mark of a key. Elsewhere it may be a quotation."""
    lines = (text or "").rstrip().splitlines()
    # An editor may have escaped the mark.
    return bool(lines) and lines[-1].replace("\\", "") == f"<!-- vik:{key} -->"


def present(**fields):
    """Returns an object with the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def argument(text):
    """Checks an id, a state, a label or a branch."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    is_control = any(unicodedata.category(character) == "Cc" for character in text)
    if not 1 <= size <= 1024 or not text.strip() or text.startswith("-") or is_control:
        raise argparse.ArgumentTypeError("this is not one line of 1 to 1,024 bytes")
    return text


def key_argument(text):
    """Checks a key."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text):
        raise argparse.ArgumentTypeError("a key has 1 to 128 letters, digits, `.`, `_` and `-`")
    return text


def read_input(**defaults):
    """Reads the object on standard input; a field whose default is None is required."""
    try:
        found = json.loads(sys.stdin.buffer.read())
        found = {**defaults, **{name: found[name] for name in defaults if name in found}}
    except (ValueError, TypeError) as error:
        raise CallError(USAGE, f"standard input is not a JSON object: {error}") from None
    for name, value in found.items():
        if not isinstance(value, list if defaults[name] == [] else str):
            raise CallError(USAGE, f"`{name}` on standard input is missing or invalid")
    return found


def parse(options):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, variable in options.items():
        parser.add_argument(f"--{name}", metavar=variable, help=f"instead of {variable}")
    verbs = parser.add_subparsers(dest="verb", title="verbs", required=True)

    def add(verb, *positional):
        found = verbs.add_parser(verb, allow_abbrev=False)
        for name in positional:
            found.add_argument(name, type=argument)
        return found

    if "capabilities" in VERBS:
        add("capabilities")
    if "states" in VERBS:
        add("states").add_argument("--create", type=argument, action="append", default=[])
    if "list" in VERBS:
        add("list").add_argument("--all", action="store_true")
    if "show" in VERBS:
        add("show", "id")
    if "move" in VERBS:
        move = add("move", "id")
        move.add_argument("--from", dest="before", type=argument, required=True)
        move.add_argument("--to", dest="after", type=argument, required=True)
    if "comment" in VERBS:
        add("comment", "id").add_argument("--key", type=key_argument, required=True)
    if "comments" in VERBS:
        add("comments", "id")
    if "label" in VERBS:
        label = add("label", "id")
        label.add_argument("--add", type=argument, action="append", default=[])
        label.add_argument("--remove", type=argument, action="append", default=[])
    if "create" in VERBS:
        add("create").add_argument("--key", type=key_argument, required=True)
    if "pull_request" in VERBS:
        pull_request = add("pull_request")
        pull_request.add_argument("action", choices=["open", "status", "comments"])
        pull_request.add_argument("head", type=argument)
    args = parser.parse_args()
    if args.verb == "label" and set(args.add) & set(args.remove):
        parser.error("a label is both added and removed")
    return args


def call(tracker, args):
    """Carries out a request. Returns the JSON of the answer."""
    if args.verb == "capabilities":
        return present(protocol=1, name=NAME, verbs=VERBS, states=tracker.states())
    if args.verb == "states":
        states, created = tracker.create_states(args.create)
        return {"states": states, "created": created}
    if args.verb == "list":
        return tracker.list(args.all)
    if args.verb == "show":
        return tracker.show(args.id)
    if args.verb == "move":
        moved, state = tracker.move(args.id, args.before, args.after)
        return {"moved": moved, "state": state}
    if args.verb == "comment":
        return {"created": tracker.comment(args.id, args.key, read_input(body=None)["body"])}
    if args.verb == "comments":
        return tracker.comments(args.id)
    if args.verb == "label":
        return {"changed": tracker.label(args.id, args.add, args.remove)}
    if args.verb == "create":
        draft = read_input(title=None, body="", state="", labels=[])
        for text in [*draft["labels"], *filter(None, [draft["state"]])]:
            if not isinstance(text, str):
                raise CallError(USAGE, "a label on standard input is invalid")
            argument(text)
        return tracker.create(args.key, **draft)
    if args.action == "open":
        return tracker.open_pull_request(args.head, **read_input(title=None, body="", base=""))
    if args.action == "status":
        return tracker.pull_request_status(args.head)
    return tracker.pull_request_comments(args.head)


def report(error):
    """Prints an error on one line for people, without secrets, and the time to wait."""
    text = str(error)
    for value in SECRETS:
        text = text.replace(value, "***")
    text = "".join(character if character.isprintable() else " " for character in text)
    print(f"{NAME}: {text[:500]}", file=sys.stderr)
    if getattr(error, "wait", None) is not None:
        print(f"retry-after: {error.wait}", file=sys.stderr)


def main():
    args = parse(OPTIONS)
    try:
        answer = call(Tracker(args), args)
    except CallError as error:
        report(error)
        return error.code
    except argparse.ArgumentTypeError as error:
        report(error)
        return USAGE
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        report(f"the response has an unexpected form ({type(error).__name__})")
        return FAILED
    # Only ASCII: the answer does not depend on the locale.
    print(json.dumps(answer))
    return 0


# ---- End of the common part. ----

NAME = "linear"
VERBS = ["capabilities", "list", "show", "move", "comment", "comments", "label", "create"]
OPTIONS = {"team": "LINEAR_TEAM", "label": "LINEAR_LABEL", "url": "LINEAR_URL"}
# Unix times in milliseconds.
RESET_HEADERS = [
    "X-RateLimit-Requests-Reset",
    "X-RateLimit-Endpoint-Requests-Reset",
    "X-RateLimit-Complexity-Reset",
]

# The state of an open issue without the label.
NONE = "none"
# The types of states in which an issue is closed.
CLOSED = ["completed", "canceled", "duplicate"]
# Linear counts the fields of a query before it runs: a list counts as if it were full. A query may
# have 10,000 points, so the lists inside of issues are short in `list`. Issues that have more are
# read once more.
PAGE = 50
NESTED_IN_LIST = {"labels": 10, "relations": 5}
NESTED_IN_SHOW = {"labels": 250, "relations": 250}

ISSUE_FIELDS = """
  id identifier number title description priority url createdAt updatedAt trashed
  creator { email } assignee { email }
  state { name type }
  labels(first: $labels) { nodes { id name } }
  inverseRelations(first: $relations) { nodes { type issue { identifier state { type } } } }
"""

ISSUES = f"""
query Issues(
  $team: String!, $filter: IssueFilter!, $first: Int!, $after: String, $labels: Int!, $relations: Int!
) {{
  teams(first: 1, filter: {{ key: {{ eq: $team }} }}) {{ nodes {{ id }} }}
  issues(first: $first, after: $after, filter: $filter, includeArchived: true) {{
    nodes {{ {ISSUE_FIELDS} }}
    pageInfo {{ hasNextPage endCursor }}
  }}
}}
"""

TEAM = """
query Team($team: String!) {
  teams(first: 1, filter: { key: { eq: $team } }) {
    nodes { id states(first: 250) { nodes { id name type position } } }
  }
}
"""

LABELS = """
query Labels($filter: IssueLabelFilter!) {
  issueLabels(first: 250, filter: $filter) { nodes { id name team { key } } }
}
"""

COMMENTS = """
query Comments($issue: String!, $after: String) {
  issue(id: $issue) {
    comments(first: 100, after: $after) {
      nodes { id body createdAt url user { email } }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""

CREATE_ISSUE = """
mutation CreateIssue($input: IssueCreateInput!) {
  issueCreate(input: $input) { success issue { identifier url } }
}
"""

UPDATE_ISSUE = """
mutation UpdateIssue($id: String!, $input: IssueUpdateInput!) {
  issueUpdate(id: $id, input: $input) { success }
}
"""

CREATE_LABEL = """
mutation CreateLabel($input: IssueLabelCreateInput!) {
  issueLabelCreate(input: $input) { success issueLabel { id } }
}
"""

CREATE_COMMENT = """
mutation CreateComment($input: CommentCreateInput!) {
  commentCreate(input: $input) { success }
}
"""


def stable_id(*parts):
    """Returns the same id for the same texts, in the form that Linear accepts from clients."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


class Tracker:
    def __init__(self, args):
        self.key = secret("LINEAR_API_KEY")
        self.team = setting(args.team, "LINEAR_TEAM")
        self.label_name = setting(args.label, "LINEAR_LABEL", default="vik")
        self.url = checked_url(
            setting(args.url, "LINEAR_URL", default="https://api.linear.app/graphql")
        )

    def query(self, query, **variables):
        """Sends a query. Returns its data."""
        body = {"query": query, "variables": variables}
        body["operationName"] = query.split("(")[0].split()[-1]
        headers = {"Authorization": self.key}
        status, headers, answer = request("POST", self.url, headers, body)
        errors = answer.get("errors") if isinstance(answer, dict) else None
        errors = [error for error in errors or [] if isinstance(error, dict)]
        reason = "; ".join(str(error.get("message")) for error in errors)
        if any((error.get("extensions") or {}).get("code") == "RATELIMITED" for error in errors):
            raise CallError(LATER, reason, wait(headers, DEFAULT_WAIT))
        try:
            check_status(status, headers, reason)
        except CallError as error:
            # Linear has one address for everything: if it is missing, the URL is wrong.
            error.code = FAILED if error.code == NOT_FOUND else error.code
            raise
        if errors:
            raise CallError(FAILED, reason)
        return answer["data"]

    def change(self, query, **variables):
        """Sends a mutation. Returns its payload."""
        (payload,) = self.query(query, **variables).values()
        if not payload["success"]:
            raise CallError(FAILED, "Linear refused the change")
        return payload

    def issues(self, condition, first, nested):
        """Returns all issues of the team that fulfil a condition, in pages of `first` issues."""
        condition = {"team": {"key": {"eq": self.team}}, **condition}
        found, after = [], None
        while True:
            data = self.query(
                ISSUES, team=self.team, filter=condition, first=first, after=after, **nested
            )
            if not data["teams"]["nodes"]:
                raise CallError(FAILED, f"there is no team `{self.team}`, or the key cannot see it")
            found += [issue for issue in data["issues"]["nodes"] if not issue.get("trashed")]
            page = data["issues"]["pageInfo"]
            if not page["hasNextPage"]:
                return found
            after = page["endCursor"]

    def find(self, id):
        """Returns an issue as Linear has it."""
        team, _, number = id.rpartition("-")
        if team != self.team or not re.fullmatch(r"[1-9][0-9]{0,8}", number):
            raise CallError(NOT_FOUND, f"there is no issue `{id}` in the team `{self.team}`")
        found = self.issues({"number": {"eq": int(number)}}, 1, NESTED_IN_SHOW)
        if not found:
            raise CallError(NOT_FOUND, f"there is no issue `{id}`")
        return found[0]

    def labels(self, issue):
        return {label["name"]: label["id"] for label in issue["labels"]["nodes"]}

    def state(self, issue):
        is_taken = self.label_name in self.labels(issue) or issue["state"]["type"] in CLOSED
        return issue["state"]["name"] if is_taken else NONE

    def issue(self, issue):
        """Returns an issue in the form of the protocol."""
        blockers = sorted(
            relation["issue"]["identifier"]
            for relation in issue["inverseRelations"]["nodes"]
            if relation["type"] == "blocks" and relation["issue"]["state"]["type"] not in CLOSED
        )
        return present(
            id=issue["identifier"],
            title=issue["title"],
            state=self.state(issue),
            description=issue["description"] or "",
            # 0 is no priority, and 1 is urgent.
            priority=issue["priority"] or None,
            created_at=issue["createdAt"],
            updated_at=issue["updatedAt"],
            labels=sorted(self.labels(issue)),
            url=issue["url"],
            author=(issue["creator"] or {}).get("email"),
            assignee=(issue["assignee"] or {}).get("email"),
            blocked_by=blockers or None,
        )

    def list(self, everything):
        # An issue without the label is listed while its last change is recent, so that Vik sees
        # that a person has removed the label. Until somebody adds it, no stage takes the issue.
        is_open = {"state": {"type": {"nin": CLOSED}}}
        has_label = {"labels": {"name": {"eq": self.label_name}}}
        recent = {"updatedAt": {"gte": ago(LISTED_FOR)}}
        condition = {} if everything else {"or": [{**has_label, **is_open}, recent]}
        found = self.issues(condition, PAGE, NESTED_IN_LIST)
        for at, issue in enumerate(found):
            labels, relations = issue["labels"]["nodes"], issue["inverseRelations"]["nodes"]
            is_full = len(labels) == NESTED_IN_LIST["labels"]
            if is_full or len(relations) == NESTED_IN_LIST["relations"]:
                found[at] = self.find(issue["identifier"])
        return [self.issue(issue) for issue in sorted(found, key=lambda found: found["number"])]

    def show(self, id):
        return self.issue(self.find(id))

    def team_states(self):
        """Returns the id of the team, and its states, those of closed issues last."""
        teams = self.query(TEAM, team=self.team)["teams"]["nodes"]
        if not teams:
            raise CallError(FAILED, f"there is no team `{self.team}`, or the key cannot see it")
        states = teams[0]["states"]["nodes"]
        states.sort(key=lambda state: (state["type"] in CLOSED, state["position"]))
        return teams[0]["id"], states

    def states(self):
        return [state["name"] for state in self.team_states()[1]] + [NONE]

    def state_id(self, states, name):
        for state in states:
            if state["name"] == name:
                return state["id"]
        names = ", ".join(state["name"] for state in states)
        raise CallError(FAILED, f"the team has no state `{name}`; it has: {names}")

    def label_ids(self, team_id, names):
        """Returns the ids of labels. Creates those that neither team nor workspace has."""
        if not names:
            return []
        owner = {"or": [{"team": {"key": {"eq": self.team}}}, {"team": {"null": True}}]}
        found = self.query(LABELS, filter={"name": {"in": names}, **owner})["issueLabels"]["nodes"]
        # The labels of the team come last, so that they count.
        found.sort(key=lambda label: label["team"] is not None)
        ids = {label["name"]: label["id"] for label in found}
        for name in names:
            if name not in ids:
                created = self.change(CREATE_LABEL, input={"name": name, "teamId": team_id})
                ids[name] = created["issueLabel"]["id"]
        return [ids[name] for name in names]

    def move(self, id, before, after):
        issue = self.find(id)
        state = self.state(issue)
        if state != before or before == after:
            return False, state
        team_id, states = self.team_states()
        if after == NONE:
            if issue["state"]["type"] in CLOSED:
                raise CallError(FAILED, f"a closed issue cannot be moved to `{NONE}`")
            change = {"removedLabelIds": [self.labels(issue)[self.label_name]]}
        else:
            change = {"stateId": self.state_id(states, after)}
            if self.label_name not in self.labels(issue):
                change["addedLabelIds"] = self.label_ids(team_id, [self.label_name])
        # Linear changes an issue whatever its state is: a person may have moved it meanwhile.
        state = self.state(self.find(id))
        if state != before:
            return False, state
        self.change(UPDATE_ISSUE, id=issue["id"], input=change)
        return True, after

    def all_comments(self, issue):
        """Returns the comments as Linear has them, the oldest first."""
        found, after = [], None
        while True:
            data = self.query(COMMENTS, issue=issue["id"], after=after)["issue"]["comments"]
            found += data["nodes"]
            if not data["pageInfo"]["hasNextPage"]:
                return sorted(found, key=lambda comment: comment["createdAt"])
            after = data["pageInfo"]["endCursor"]

    def comments(self, id):
        return [
            {
                "author": (comment["user"] or {}).get("email") or "unknown",
                "body": comment["body"],
                "created_at": comment["createdAt"],
                "url": comment["url"],
            }
            for comment in self.all_comments(self.find(id))
        ]

    def comment(self, id, key, body):
        issue = self.find(id)
        new = stable_id("comment", issue["id"], key)
        for comment in self.all_comments(issue):
            if comment["id"] == new or is_marked(comment["body"], key):
                return False
        # Linear refuses a second comment with the same id, if two calls run at once.
        comment = {"id": new, "issueId": issue["id"], "body": marked(body, key)}
        self.change(CREATE_COMMENT, input=comment)
        return True

    def label(self, id, add, remove):
        issue = self.find(id)
        found = self.labels(issue)
        add = [name for name in dict.fromkeys(add) if name not in found]
        remove = [found[name] for name in dict.fromkeys(remove) if name in found]
        if not add and not remove:
            return False
        change = {"removedLabelIds": remove}
        change["addedLabelIds"] = self.label_ids(self.team_states()[0], add) if add else []
        self.change(UPDATE_ISSUE, id=issue["id"], input=change)
        return True

    def create(self, key, title, body, state, labels):
        team_id, states = self.team_states()
        new = stable_id("issue", team_id, key)
        known = self.issues({"id": {"eq": new}}, 1, NESTED_IN_LIST)
        if known:
            return {"id": known[0]["identifier"], "created": False, "url": known[0]["url"]}
        # Without a state, the issue does not get the label either, so that no stage takes it.
        labels = {name for name in labels if name != self.label_name}
        issue = {"id": new, "teamId": team_id, "title": title, "description": marked(body, key)}
        if state not in ("", NONE):
            issue["stateId"] = self.state_id(states, state)
            labels.add(self.label_name)
        issue["labelIds"] = self.label_ids(team_id, sorted(labels))
        created = self.change(CREATE_ISSUE, input=issue)["issue"]
        return {"id": created["identifier"], "created": True, "url": created["url"]}


if __name__ == "__main__":
    sys.exit(main())
