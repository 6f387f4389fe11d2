#!/usr/bin/env python3
"""Gitea or Forgejo as a tracker for Vik: the issues of one repository. Python 3.9 or later; no
packages.

settings, in the environment or as options before the verb:
  GITEA_TOKEN  an access token; only in the environment
  GITEA_URL    the address, such as https://gitea.example
  GITEA_REPO   the repository, as OWNER/NAME

Gitea has only the states open and closed, so labels are the states of open issues: `vik:todo` is
the state `todo`. An open issue without such a label is in the state `none`.
"""

import argparse
import datetime
import email.utils
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

NAME = "gitea"
VERBS = [
    "capabilities",
    "states",
    "list",
    "show",
    "move",
    "comment",
    "comments",
    "label",
    "create",
    "pull_request",
]
OPTIONS = {"url": "GITEA_URL", "repo": "GITEA_REPO"}
RESET_HEADERS = ["X-RateLimit-Reset", "RateLimit-Reset"]

# The beginning of labels that are states.
STATE_LABEL = "vik:"
NONE, CLOSED = "none", "closed"
# Gitea may limit pages to less.
PAGE = 50


def login(user):
    """Returns the name of a user; that of Gitea for an account that was deleted."""
    return (user or {}).get("login") or "Ghost"


class Tracker:
    def __init__(self, args):
        self.token = secret("GITEA_TOKEN")
        self.repo = setting(args.repo, "GITEA_REPO")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*", self.repo):
            raise CallError(FAILED, "GITEA_REPO is not OWNER/NAME")
        self.api = f"{checked_url(setting(args.url, 'GITEA_URL'))}/api/v1"

    def states(self):
        """Returns nothing: any label can be a state."""

    def request(self, method, path, body=None, **query):
        """Sends a request below the repository. Returns the headers and JSON of the response."""
        # A path that begins with a slash is below the API instead.
        below = path if path.startswith("/") else f"/repos/{self.repo}/{path}"
        url = self.api + below.rstrip("/")
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": f"token {self.token}"}
        status, headers, answer = request(method, url, headers, body)
        found = answer if isinstance(answer, dict) else {}
        check_status(status, headers, found.get("message") or "")
        return headers, answer

    def send(self, method, path, body=None, **query):
        return self.request(method, path, body, **query)[1]

    def all_pages(self, path, **query):
        """Returns the items of all pages."""
        for is_last_try in (False, True):
            found, total, page = {}, 0, 0
            while True:
                page += 1
                headers, items = self.request("GET", path, page=page, limit=PAGE, **query)
                count = len(found)
                found.update((item["id"], item) for item in items or [])
                # A list without pages sends the same items again.
                if len(found) == count:
                    break
                counted = headers.get("X-Total-Count") or ""
                if counted.isdecimal():
                    total = max(total, int(counted))
                    if len(found) >= total:
                        break
            # An item that left the list meanwhile moved others to a page that had been read.
            if len(found) >= total or is_last_try:
                return list(found.values())

    def of_repository(self, *args, **query):
        """Returns the items of all pages; without the repository, no id is at fault."""
        try:
            return self.all_pages(*args, **query)
        except CallError as error:
            if error.code == NOT_FOUND:
                raise CallError(FAILED, f"cannot find the repository: {error}") from None
            raise

    def check_repository(self):
        """Fails if the repository cannot be read: then it is unknown whether an issue exists."""
        try:
            self.send("GET", "")
        except CallError as error:
            if error.code == NOT_FOUND:
                raise CallError(FAILED, f"cannot find the repository: {error}") from None
            raise

    def path(self, id):
        """Returns the path of an issue. Only numbers get into a path."""
        if not re.fullmatch(r"[1-9][0-9]{0,17}", id):
            raise CallError(NOT_FOUND, f"there is no issue `{id}`: the ids of Gitea are numbers")
        return f"issues/{id}"

    def find(self, id):
        """Returns an issue as Gitea has it."""
        path = self.path(id)
        try:
            found = self.send("GET", path)
        except CallError as error:
            if error.code == NOT_FOUND:
                self.check_repository()
            raise
        if found.get("pull_request"):
            raise CallError(NOT_FOUND, f"{id} is a pull request")
        return found

    def labels(self, issue):
        return {label["name"]: label["id"] for label in issue.get("labels") or []}

    def state_labels(self, issue):
        return {name for name in self.labels(issue) if name.startswith(STATE_LABEL)}

    def state(self, issue):
        if issue["state"] == CLOSED:
            return CLOSED
        return min(self.state_labels(issue), default=STATE_LABEL + NONE)[len(STATE_LABEL) :]

    def blockers(self, issue):
        """Returns the open issues of the repository that block an issue."""
        if self.state(issue) in (NONE, CLOSED):
            # No stage takes it, so this saves a request.
            return []
        try:
            found = self.all_pages(f"issues/{issue['number']}/dependencies")
        except CallError as error:
            # The repository has no dependencies.
            if error.code == NOT_FOUND:
                return []
            raise
        return sorted(
            str(other["number"])
            for other in found
            if other["state"] != CLOSED
            and (other.get("repository") or {}).get("full_name", self.repo) == self.repo
        )

    def issue(self, issue):
        """Returns an issue in the form of the protocol."""
        assignees = [login(user) for user in issue.get("assignees") or []]
        return present(
            id=str(issue["number"]),
            title=issue["title"],
            state=self.state(issue),
            description=issue["body"] or "",
            created_at=issue["created_at"],
            updated_at=issue["updated_at"],
            labels=sorted(self.labels(issue)),
            url=issue["html_url"],
            author=login(issue["user"]),
            assignee=assignees[0] if assignees else None,
            assignees=assignees or None,
            blocked_by=self.blockers(issue) or None,
        )

    def list(self, everything):
        recent = {"state": "all", "since": ago(LISTED_FOR)}
        # The recent ones come second: an issue that is closed or opened meanwhile is among them.
        queries = [{"state": "all"}] if everything else [{"state": "open"}, recent]
        found = {}
        for query in queries:
            for issue in self.of_repository("issues", type="issues", **query):
                if not issue.get("pull_request"):
                    found[issue["number"]] = issue
        return [self.issue(found[number]) for number in sorted(found)]

    def show(self, id):
        return self.issue(self.find(id))

    def create_states(self, wanted):
        """Creates the labels of states that do not exist. Returns all states and the new ones."""
        known = [name.removeprefix(STATE_LABEL) for name in self.known_labels() if name.startswith(STATE_LABEL)]
        known += [CLOSED, NONE]
        created = [state for state in dict.fromkeys(wanted) if state not in known]
        self.label_ids([STATE_LABEL + state for state in created])
        return sorted([*known, *created]), created

    def known_labels(self):
        """Returns the ids of the labels of the repository and its owner, by their names."""
        ids = {}
        owner = self.repo.split("/")[0]
        for path in ("labels", f"/orgs/{owner}/labels"):
            try:
                for label in self.all_pages(path):
                    ids.setdefault(label["name"], label["id"])
            except CallError as error:
                # The owner is a person, or the token may not read the labels of the organization.
                is_refused = error.code == NOT_FOUND or str(error).startswith("status 403")
                if path == "labels" or not is_refused:
                    raise
        return ids

    def label_ids(self, names):
        """Returns the ids of labels. Creates those that neither repository nor owner has."""
        ids = self.known_labels() if names else {}
        for name in names:
            if name not in ids:
                label = {"name": name, "color": "#ededed"}
                ids[name] = self.send("POST", "labels", label)["id"]
        return [ids[name] for name in names]

    def add_labels(self, id, names):
        self.send("POST", f"{self.path(id)}/labels", {"labels": self.label_ids(names)})

    def remove_label(self, id, label_id):
        try:
            self.send("DELETE", f"{self.path(id)}/labels/{int(label_id)}")
        except CallError as error:
            # Somebody else has removed it.
            if error.code != NOT_FOUND:
                raise

    def move(self, id, before, after):
        issue = self.find(id)
        state, labels = self.state(issue), self.labels(issue)
        # During a move, an issue has the labels of both states.
        is_there = state == before or state != CLOSED and STATE_LABEL + before in labels
        if not is_there or before == after:
            return False, state
        new = None if after in (NONE, CLOSED) else STATE_LABEL + after
        # The new label first: an issue without a label is in no state.
        if new is not None and new not in labels:
            self.add_labels(id, [new])
            found = self.find(id)
            if self.was_moved(issue, found, STATE_LABEL + before, new):
                # A person may also have removed the label.
                if new in self.labels(found):
                    self.remove_label(id, self.labels(found)[new])
                found["labels"] = [label for label in found["labels"] if label["name"] != new]
                return False, self.state(found)
        if (state == CLOSED) != (after == CLOSED):
            state = CLOSED if after == CLOSED else "open"
            self.send("PATCH", self.path(id), {"state": state})
        for name, label_id in labels.items():
            if name.startswith(STATE_LABEL) and name != new:
                self.remove_label(id, label_id)
        return True, after

    def was_moved(self, issue, found, old, new):
        """Returns whether a person has moved or closed an issue while it got the label `new`."""
        states, found_states = self.state_labels(issue), self.state_labels(found)
        is_old_removed = old in states and old not in found_states
        others = found_states - states - {new}
        is_changed = found["state"] != issue["state"]
        return is_changed or is_old_removed or bool(others) or new not in found_states

    def comments_at(self, path):
        return [self.comment_json(comment) for comment in self.all_pages(path)]

    def comment_json(self, comment):
        """Returns a comment in the form of the protocol."""
        return present(
            author=login(comment.get("user")),
            body=comment.get("body") or "",
            created_at=comment.get("created_at") or comment.get("submitted_at"),
            url=comment.get("html_url"),
            path=comment.get("path"),
            # The line in the new file; 0 if the line was removed since.
            line=comment.get("position") or comment.get("original_position") or None,
        )

    def comments(self, id):
        self.find(id)
        return self.comments_at(f"{self.path(id)}/comments")

    def comment(self, id, key, body):
        if any(is_marked(comment["body"], key) for comment in self.comments(id)):
            return False
        self.send("POST", f"{self.path(id)}/comments", {"body": marked(body, key)})
        return True

    def label(self, id, add, remove):
        for name in [*add, *remove]:
            # Gitea ignores case in the names of labels.
            if name.lower().startswith(STATE_LABEL):
                raise CallError(FAILED, f"the label {name!r} is a state: use `move`")
        found = self.labels(self.find(id))
        add = [name for name in dict.fromkeys(add) if name not in found]
        remove = [found[name] for name in dict.fromkeys(remove) if name in found]
        if add:
            self.add_labels(id, add)
        for label_id in remove:
            self.remove_label(id, label_id)
        return bool(add or remove)

    def find_marked(self, key, type):
        """Returns the issue or the pull request, as `type` says, that was created with a key."""
        since = ago(KEYS_KNOWN_FOR)
        for issue in self.of_repository("issues", type=type, state="all", since=since):
            is_pull_request = bool(issue.get("pull_request"))
            if is_pull_request == (type == "pulls") and is_marked(issue["body"], key):
                return issue
        return None

    def create(self, key, title, body, state, labels):
        found = self.find_marked(key, "issues")
        if found:
            return self.created(found, False)
        names = set(labels)
        if state not in ("", NONE, CLOSED):
            names.add(STATE_LABEL + state)
        issue = {"title": title, "body": marked(body, key)}
        issue["labels"] = self.label_ids(sorted(names))
        return self.created(self.send("POST", "issues", issue), True)

    def created(self, found, created):
        return {"id": str(found["number"]), "created": created, "url": found["html_url"]}

    def pull_requests(self, head, **query):
        """Returns the pull requests of a branch of the repository, the newest first."""
        found = []
        for pull in self.of_repository("pulls", **query):
            branch = pull["head"]
            # After a branch was removed, only its label has the name.
            is_head = head in (branch.get("label"), branch.get("ref"))
            if is_head and branch.get("repo_id") == pull["base"].get("repo_id"):
                found.append(pull)
        return sorted(found, key=lambda pull: pull["number"], reverse=True)

    def newest_pull_request(self, head):
        found = self.pull_requests(head, state="all")
        if not found:
            raise CallError(NOT_FOUND, f"there is no pull request of the branch `{head}`")
        return found[0]

    def open_pull_request(self, head, title, body, base):
        # Vik repeats an output with its key. By then, a person may have merged the pull request.
        key = os.environ.get("VIK_OUTPUT_KEY")
        if key:
            body = marked(body, key_argument(key))
            opened = self.find_marked(key, "pulls")
            if opened:
                return self.created(opened, False)
        found = self.pull_requests(head, state="open")
        if found:
            return self.created(found[0], False)
        base = base or self.send("GET", "")["default_branch"]
        pull = {"title": title, "body": body, "head": head, "base": base}
        return self.created(self.send("POST", "pulls", pull), True)

    def pull_request_status(self, head):
        pull = self.newest_pull_request(head)
        commit = urllib.parse.quote(pull["head"]["sha"], safe="")
        status = self.send("GET", f"commits/{commit}/status") or {}
        state = pull["state"]
        return {
            "id": str(pull["number"]),
            "url": pull["html_url"],
            "state": "merged" if pull.get("merged") else state,
            "draft": bool(pull.get("draft")),
            "checks": self.checks(status),
            "review": self.review(self.all_pages(f"pulls/{pull['number']}/reviews")),
        }

    def checks(self, status):
        """Returns the combined result of the checks of a commit."""
        if not status.get("total_count"):
            return "none"
        passed = ("success", "warning", "skipped")
        state = status.get("state")
        return "passed" if state in passed else "pending" if state == "pending" else "failed"

    def review(self, reviews):
        """Returns the combined result of the last review of each person."""
        last = {}
        for review in sorted(reviews, key=lambda review: review["id"]):
            if review["state"] in ("APPROVED", "REQUEST_CHANGES"):
                is_valid = not review.get("dismissed")
                last[login(review.get("user"))] = review["state"] if is_valid else None
        if "REQUEST_CHANGES" in last.values():
            return "changes_requested"
        return "approved" if "APPROVED" in last.values() else "none"

    def pull_request_comments(self, head):
        number = self.newest_pull_request(head)["number"]
        found = self.comments_at(f"issues/{number}/comments")
        for review in self.all_pages(f"pulls/{number}/reviews"):
            if review["state"] == "PENDING":
                continue
            if review.get("body"):
                found.append(self.comment_json(review))
            found += self.comments_at(f"pulls/{number}/reviews/{int(review['id'])}/comments")
        return sorted(found, key=lambda comment: seconds(comment["created_at"]))


def seconds(text):
    """Returns a time of Gitea, which has the offset of the server, as a Unix time."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


if __name__ == "__main__":
    sys.exit(main())
