// Workflow commands from text of issues and agents, which must not end them or start others.

// A longer text is cut, since the service limits the size of an annotation.
const MAX_TEXT = 1000;

/// Escapes the message of a workflow command; as a property, also what would end the property.
export function escape(text, isProperty = false) {
  const cut = String(text).slice(0, MAX_TEXT);
  const message = cut.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
  return isProperty ? message.replaceAll(":", "%3A").replaceAll(",", "%2C") : message;
}

/// Returns a workflow command for each run that did not succeed.
export function annotations(runs) {
  return runs
    .filter((run) => run.outcome !== null && run.outcome !== "succeeded")
    .map((run) => {
      const last = run.attempts.at(-1);
      const cause = last?.reason ?? last?.hand_over_failure ?? last?.failure_class;
      const title = escape(`${run.stage} of issue ${run.issue_id}: ${run.outcome}`, true);
      return `::error title=${title}::${escape(cause ? `${run.issue_title}: ${cause}` : run.issue_title)}`;
    });
}
