#!/usr/bin/env python3
"""Jira Cloud as a tracker for Vik: the issues of one project. Python 3.9 or later; no packages.

settings, in the environment or as options before the verb:
  JIRA_EMAIL       the mail address of the account; only in the environment
  JIRA_API_TOKEN   an API token of this account; only in the environment
  JIRA_URL         the address, such as https://example.atlassian.net; also JIRA_BASE_URL
  JIRA_PROJECT     the key of the project: ENG for issues such as ENG-12
  JIRA_LABEL       Vik takes only issues with this label; default: vik
  JIRA_ISSUE_TYPE  the type of issues that Vik creates; default: Task

States are the statuses of the project. An open issue without the label is in the state `none`:
moving it to another state adds the label, and moving it to `none` removes the label. A move takes
the transition that leads to the status.

Descriptions and comments are documents in Jira. They are printed as Markdown; Markdown that Vik
writes is stored as plain text. The last line of a text that is written with a key names the key.
"""

import argparse
import base64
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

NAME = "jira"
VERBS = ["capabilities", "list", "show", "move", "comment", "comments", "label", "create"]
OPTIONS = {
    "url": "JIRA_URL",
    "project": "JIRA_PROJECT",
    "label": "JIRA_LABEL",
    "issue-type": "JIRA_ISSUE_TYPE",
}
RESET_HEADERS = ["X-RateLimit-Reset"]

# The state of an open issue without the label.
NONE = "none"
# The longest title and text, in UTF-16 units. Jira permits 32,767 for a text, with the mark of the
# key.
TITLE_LIMIT, TEXT_LIMIT = 255, 32_500
# How long a new issue may be missing in the search, in seconds.
SEARCH_LAG = 60
# How many numbers around the newest issue of the search are read directly. Jira permits 100 issues
# for a request.
BEFORE_NEWEST, AFTER_NEWEST = 20, 79
FIELDS = [
    "summary",
    "description",
    "status",
    "priority",
    "labels",
    "created",
    "updated",
    "creator",
    "assignee",
    "issuelinks",
]


def first_units(text, count):
    """Returns the beginning of a text that has at most so many UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return text if len(units) <= 2 * count else units[: 2 * count].decode("utf-16-le", "ignore")


def cut_title(title):
    """Returns a title that Jira accepts; an ellipsis shows that it was cut."""
    is_short = first_units(title, TITLE_LIMIT) == title
    return title if is_short else first_units(title, TITLE_LIMIT - 1).rstrip() + "…"


def cut_text(text):
    """Returns a text that Jira accepts; the last line states how much was cut."""
    if first_units(text, TEXT_LIMIT) == text:
        return text
    # Leaves space for the last line.
    found = first_units(text, TEXT_LIMIT - 50)
    return f"{found}\n\n[cut: {len(text) - len(found):,} more characters]"


def document(text):
    """Returns a plain text as a document: paragraphs with line breaks."""
    paragraphs = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        content = []
        for number, line in enumerate(block.split("\n")):
            if number > 0:
                content.append({"type": "hardBreak"})
            if line:
                content.append({"type": "text", "text": line})
        paragraphs.append({"type": "paragraph", "content": content})
    return {"type": "doc", "version": 1, "content": paragraphs}


def markdown(node):
    """Returns a document, or a part of one, as Markdown."""
    if not isinstance(node, dict):
        return ""
    kind, attrs = node.get("type"), node.get("attrs") or {}
    parts = [markdown(child) for child in node.get("content") or []]
    if kind == "text":
        return marked_up(node)
    if kind == "hardBreak":
        return "\n"
    if kind in ("mention", "emoji", "status", "placeholder"):
        return attrs.get("text") or attrs.get("shortName") or ""
    if kind in ("inlineCard", "blockCard", "embedCard"):
        return attrs.get("url") or ""
    if kind == "date":
        return iso_date(attrs.get("timestamp"))
    if kind in ("media", "mediaInline"):
        return f"[{attrs.get('alt') or 'attachment'}]"
    if kind == "paragraph":
        return "".join(parts)
    if kind == "heading":
        return "#" * int(attrs.get("level") or 1) + " " + "".join(parts)
    if kind == "codeBlock":
        return f"```{attrs.get('language') or ''}\n{''.join(parts)}\n```"
    if kind == "rule":
        return "---"
    if kind == "blockquote":
        return indented("\n\n".join(parts), "> ", "> ")
    if kind == "bulletList":
        return "\n".join(indented(part, "- ", "  ") for part in parts)
    if kind == "orderedList":
        first = int(attrs.get("order") or 1)
        return "\n".join(
            indented(part, f"{number}. ", "   ") for number, part in enumerate(parts, first)
        )
    if kind in ("taskList", "decisionList"):
        return "\n".join(parts)
    if kind in ("taskItem", "decisionItem"):
        box = "x" if attrs.get("state") in ("DONE", "DECIDED") else " "
        return indented("".join(parts), f"- [{box}] ", "  ")
    if kind == "listItem":
        return "\n".join(parts)
    if kind == "table":
        return "\n".join(parts)
    if kind == "tableRow":
        return "| " + " | ".join(part.replace("\n", " ") for part in parts) + " |"
    # A document, and everything that Jira will have later.
    return "\n\n".join(parts)


def marked_up(node):
    """Returns a text with its formatting."""
    text = node.get("text") or ""
    marks = {mark.get("type"): mark.get("attrs") or {} for mark in node.get("marks") or []}
    for name, sign in (("code", "`"), ("strong", "**"), ("em", "_"), ("strike", "~~")):
        if name in marks:
            text = f"{sign}{text}{sign}"
    href = marks.get("link", {}).get("href")
    return f"[{text}]({href})" if href else text


def indented(text, first, others):
    """Returns a text with a prefix for its first line, and one for the others."""
    lines = text.split("\n")
    return "\n".join([first + lines[0]] + [(others + line).rstrip() for line in lines[1:]])


def iso_date(milliseconds):
    """Returns the day of a Unix time in milliseconds."""
    at = datetime.datetime.fromtimestamp(int(milliseconds or 0) / 1000, datetime.timezone.utc)
    return at.strftime("%Y-%m-%d")


def rfc3339(text):
    """Returns a time of Jira (2026-01-02T03:04:05.000+0000) as RFC 3339 defines it."""
    at = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return at.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def quoted(text):
    """Returns a text as a value of a JQL query."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


class Tracker:
    def __init__(self, args):
        email = setting(None, "JIRA_EMAIL")
        token = secret("JIRA_API_TOKEN")
        pair = base64.b64encode(f"{email}:{token}".encode()).decode()
        SECRETS.append(pair)
        self.authorization = f"Basic {pair}"
        self.url = checked_url(setting(args.url, "JIRA_URL", "JIRA_BASE_URL"))
        self.project = setting(args.project, "JIRA_PROJECT")
        self.label_name = setting(args.label, "JIRA_LABEL", default="vik")
        self.issue_type = setting(args.issue_type, "JIRA_ISSUE_TYPE", default="Task")
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", self.project):
            raise CallError(FAILED, "JIRA_PROJECT is not the key of a project, such as ENG")

    def send(self, method, path, body=None, **query):
        """Sends a request below the API. Returns the JSON of the response."""
        url = f"{self.url}/rest/api/3/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": self.authorization}
        status, headers, answer = request(method, url, headers, body)
        found = answer if isinstance(answer, dict) else {}
        messages, fields = found.get("errorMessages"), found.get("errors")
        reasons = messages if isinstance(messages, list) else []
        if isinstance(fields, dict):
            reasons += [f"{name}: {message}" for name, message in fields.items()]
        try:
            check_status(status, headers, "; ".join(map(str, reasons)))
        except CallError as error:
            # Otherwise no issue is missing, but the project, or the URL is wrong.
            if error.code == NOT_FOUND and not path.startswith(f"issue/{self.project}-"):
                error.code = FAILED
            raise
        return answer

    def search(self, condition):
        """Returns all issues of the project that fulfil a condition, the oldest first."""
        jql = " AND ".join(filter(None, [f"project = {quoted(self.project)}", condition]))
        query = {"jql": f"{jql} ORDER BY created ASC, key ASC", "fields": FIELDS, "maxResults": 100}
        found = {}
        while True:
            answer = self.send("POST", "search/jql", query)
            found.update((issue["key"], issue) for issue in answer["issues"])
            if not answer.get("nextPageToken"):
                return list(found.values())
            query["nextPageToken"] = answer["nextPageToken"]

    def path(self, id):
        """Returns the path of an issue. Only keys of the project get into a path."""
        if not re.fullmatch(rf"{self.project}-[1-9][0-9]{{0,8}}", id):
            raise CallError(NOT_FOUND, f"there is no issue `{id}` in the project `{self.project}`")
        return f"issue/{id}"

    def find(self, id, **query):
        """Returns an issue as Jira has it."""
        found = self.send("GET", self.path(id), fields=",".join(FIELDS), **query)
        # Jira also finds an issue that has left the project.
        if found["key"] != id:
            raise CallError(NOT_FOUND, f"the issue `{id}` was moved to another project")
        return found

    def state(self, issue):
        status = issue["fields"]["status"]
        is_closed = status["statusCategory"]["key"] == "done"
        is_taken = self.label_name in issue["fields"]["labels"] or is_closed
        return status["name"] if is_taken else NONE

    def person(self, user):
        """Returns the mail address of a person, or else the id that Jira has for the account."""
        user = user or {}
        return user.get("emailAddress") or user.get("accountId")

    def issue(self, issue):
        """Returns an issue in the form of the protocol."""
        fields = issue["fields"]
        priority = (fields.get("priority") or {}).get("id") or ""
        blockers = []
        for link in fields.get("issuelinks") or []:
            other = link.get("inwardIssue")
            if other and link["type"]["inward"].lower() == "is blocked by":
                category = other["fields"]["status"]["statusCategory"]["key"]
                blockers += [other["key"]] if category != "done" else []
        return present(
            id=issue["key"],
            title=fields["summary"],
            state=self.state(issue),
            description=markdown(fields.get("description")),
            # Jira numbers priorities, 1 is the highest.
            priority=int(priority) if priority.isdecimal() else None,
            created_at=rfc3339(fields["created"]),
            updated_at=rfc3339(fields["updated"]),
            labels=sorted(fields["labels"]),
            url=f"{self.url}/browse/{issue['key']}",
            author=self.person(fields.get("creator")),
            assignee=self.person(fields.get("assignee")),
            blocked_by=sorted(blockers) or None,
        )

    def list(self, everything):
        # An issue without the label is listed while its last change is recent, so that Vik sees
        # that a person has removed the label. Until somebody adds it, no stage takes the issue.
        days = LISTED_FOR.days
        taken = f"labels = {quoted(self.label_name)} AND statusCategory != Done"
        condition = "" if everything else f"(({taken}) OR updated >= -{days}d)"
        return [self.issue(issue) for issue in self.search(condition)]

    def show(self, id):
        return self.issue(self.find(id))

    def states(self):
        """Returns the statuses of the project, those of closed issues last."""
        names = {}
        for issue_type in self.send("GET", f"project/{self.project}/statuses"):
            for status in issue_type["statuses"]:
                names[status["name"]] = status["statusCategory"]["key"] == "done"
        return sorted(names, key=names.get) + [NONE]

    def move(self, id, before, after):
        # One request for the status and the transitions: a person has less time in between.
        issue = self.find(id, expand="transitions")
        state = self.state(issue)
        if state != before or before == after:
            return False, state
        status = issue["fields"]["status"]
        has_label = self.label_name in issue["fields"]["labels"]
        if after == NONE:
            if not has_label or status["statusCategory"]["key"] == "done":
                raise CallError(FAILED, f"a closed issue cannot be moved to `{NONE}`")
            self.change_labels(id, [], [self.label_name])
            return True, after
        if status["name"] != after:
            try:
                self.transition(issue, after)
            except CallError as error:
                # A person may have moved the issue since it was read.
                state = self.state(self.find(id)) if error.code == FAILED else before
                if state != before:
                    return False, state
                raise
        # The label comes last: without it, an issue that has not arrived is taken by no stage.
        if not has_label:
            self.change_labels(id, [self.label_name], [])
        return True, after

    def transition(self, issue, status):
        """Takes the transition to a status."""
        for transition in issue["transitions"]:
            if transition["to"]["name"] == status:
                path = f"{self.path(issue['key'])}/transitions"
                self.send("POST", path, {"transition": {"id": transition["id"]}})
                return
        names = ", ".join(transition["to"]["name"] for transition in issue["transitions"])
        raise CallError(FAILED, f"no transition leads to `{status}`; there are: {names}")

    def change_labels(self, id, add, remove):
        labels = [{"add": name} for name in add] + [{"remove": name} for name in remove]
        self.send("PUT", self.path(id), {"update": {"labels": labels}})

    def all_comments(self, id):
        """Returns the comments as Jira has them, the oldest first."""
        path, found = f"{self.path(id)}/comment", {}
        start = 0
        while True:
            page = self.send("GET", path, startAt=start, maxResults=100, orderBy="created")
            found.update((comment["id"], comment) for comment in page["comments"])
            start += len(page["comments"])
            if not page["comments"] or start >= page["total"]:
                return list(found.values())

    def comments(self, id):
        self.find(id)
        link = f"{self.url}/browse/{id}?focusedCommentId="
        return [
            {
                "author": self.person(comment.get("author")) or "unknown",
                "body": markdown(comment["body"]),
                "created_at": rfc3339(comment["created"]),
                "url": link + urllib.parse.quote(comment["id"], safe=""),
            }
            for comment in self.all_comments(id)
        ]

    def comment(self, id, key, body):
        self.find(id)
        if any(is_marked(markdown(comment["body"]), key) for comment in self.all_comments(id)):
            return False
        self.send("POST", f"{self.path(id)}/comment", {"body": document(marked(cut_text(body), key))})
        return True

    def label(self, id, add, remove):
        found = self.find(id)["fields"]["labels"]
        add = [name for name in dict.fromkeys(add) if name not in found]
        remove = [name for name in dict.fromkeys(remove) if name in found]
        if add or remove:
            self.change_labels(id, add, remove)
        return bool(add or remove)

    def newest_issues(self):
        """Returns the newest issues of the project, also those that the search lacks so far.

        Jira numbers the issues of a project, and reads an issue by its key without the lag.
        """
        jql = f"project = {quoted(self.project)} ORDER BY key DESC"
        found = self.send("POST", "search/jql", {"jql": jql, "fields": ["key"], "maxResults": 1})
        newest = max((int(issue["key"].rpartition("-")[2]) for issue in found["issues"]), default=0)
        numbers = range(max(1, newest - BEFORE_NEWEST), newest + AFTER_NEWEST + 1)
        keys = [f"{self.project}-{number}" for number in numbers]
        wanted = {"issueIdsOrKeys": keys, "fields": ["description", "status", "labels"]}
        found = self.send("POST", "issue/bulkfetch", wanted)
        # Jira also finds issues that have left the project.
        return [issue for issue in found["issues"] if issue["key"] in keys]

    def find_marked(self, key):
        """Returns the issue that was created with a key."""
        def matching(issues):
            texts = ((issue, markdown(issue["fields"].get("description"))) for issue in issues)
            return next((issue for issue, text in texts if is_marked(text, key)), None)

        mine = f"creator = currentUser() AND created >= -{KEYS_KNOWN_FOR.days}d"
        return matching(self.search(mine)) or matching(self.newest_issues())

    def create(self, key, title, body, state, labels):
        issue, created = self.find_marked(key), False
        if issue:
            id, found_state = issue["key"], self.state(issue)
        else:
            # Without a state, the issue does not get the label, so that no stage takes it.
            fields = {
                "project": {"key": self.project},
                "issuetype": {"name": self.issue_type},
                "summary": cut_title(title),
                "description": document(marked(cut_text(body), key)),
                "labels": sorted({name for name in labels if name != self.label_name}),
            }
            try:
                id, created = self.send("POST", "issue", {"fields": fields})["key"], True
            except CallError as error:
                if error.code == LATER:
                    # Jira may have created it, or may be creating it.
                    error.wait = max(error.wait or 0, SEARCH_LAG)
                raise
            found_state = NONE
        # Also if an earlier call was interrupted before this.
        if state and found_state == NONE:
            self.move(id, NONE, state)
        return {"id": id, "created": created, "url": f"{self.url}/browse/{id}"}


if __name__ == "__main__":
    sys.exit(main())
