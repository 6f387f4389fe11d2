//! Plays one turn to one client in its dialect, with the faults of the turn.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, Part, SseEvent};
use super::http::{Chunked, respond};
use super::request::{Dialect, ModelRequest};
use super::script::{Malformed, StreamPoint, Turn};
use super::tools::translate;
use super::{StopSignal, anthropic, chat, responses};

/// Plays a turn. Returns the outcome for the record.
pub(crate) fn play(
    stream: &TcpStream,
    request: &ModelRequest<'_>,
    turn: &Turn,
    pause: &StopSignal,
) -> io::Result<&'static str> {
    pause.sleep(turn.delay_ms);
    match (turn.drop, turn.stall) {
        (Some(StreamPoint::Headers), _) => return Ok("drop"),
        (_, Some(StreamPoint::Headers)) => {
            pause.wait_for_disconnect(stream, || Ok(()));
            return Ok("stall");
        }
        _ => {}
    }
    let mut headers = turn.headers.clone();
    if let Some(seconds) = turn.retry_after {
        headers.insert("retry-after".to_owned(), seconds.to_string());
    }
    if let Some(status) = turn.status {
        let body = error_body(request.dialect, status, &turn.error);
        send_json(stream, status, headers, &body)?;
        return Ok("status");
    }
    match turn.malformed {
        Some(Malformed::Html) => {
            headers.insert("content-type".to_owned(), "text/html".to_owned());
            respond(
                stream,
                200,
                &headers,
                b"<html><body>Bad gateway</body></html>",
                true,
            )?;
            return Ok("malformed");
        }
        Some(Malformed::Empty) => {
            headers.insert("content-type".to_owned(), content_type(request).to_owned());
            respond(stream, 200, &headers, b"", true)?;
            return Ok("malformed");
        }
        Some(Malformed::Sse) => {
            headers.insert("content-type".to_owned(), "text/event-stream".to_owned());
            respond(
                stream,
                200,
                &headers,
                b"event: message\ndata: {\"type\": \"oops\n\n",
                true,
            )?;
            return Ok("malformed");
        }
        Some(Malformed::Args) | None => {}
    }
    let answer = match answer(request, turn) {
        Ok(answer) => answer,
        Err(reason) => {
            send_json(
                stream,
                400,
                headers,
                &error_body(request.dialect, 400, &json!(reason)),
            )?;
            return Ok("bad script");
        }
    };
    if !request.streams() {
        return play_whole(stream, request, turn, &answer, headers, pause);
    }
    headers.insert("content-type".to_owned(), "text/event-stream".to_owned());
    headers.insert("cache-control".to_owned(), "no-cache".to_owned());
    let mut out = Chunked::start(stream, &headers, turn.wire_bytes, turn.drop_bytes)?;
    let events = events(request, &answer);
    let cut = turn.drop.or(turn.end).or(turn.stall);
    let cut = cut.map(|place| index_of_point(&events, place));
    let broken = (!turn.sse_error.is_null()).then(|| index_of_point(&events, StreamPoint::Mid));
    for (at, event) in events.iter().enumerate() {
        if cut == Some(at) {
            if turn.drop.is_some() {
                return Ok("drop");
            }
            if turn.end.is_some() {
                out.finish()?;
                return Ok("end");
            }
            let ping = ping(request.dialect);
            pause.wait_for_disconnect(stream, || {
                if turn.ping {
                    out.send(ping).map(drop)
                } else {
                    Ok(())
                }
            });
            return Ok("stall");
        }
        if broken == Some(at) {
            out.send(&sse_error(request.dialect, &turn.sse_error).wire)?;
            out.finish()?;
            return Ok("sse_error");
        }
        if turn.chunk_ms > 0 && matches!(event.part, Part::Text | Part::ToolArgs) {
            pause.sleep(turn.chunk_ms);
        }
        if !out.send(&event.wire)? {
            return Ok("drop");
        }
    }
    out.finish()?;
    Ok("ok")
}

/// Answers one of the client's own side requests.
pub(crate) fn side_call(stream: &TcpStream, request: &ModelRequest<'_>) -> io::Result<&'static str> {
    let wants_json = !request.body["output_config"].is_null() || !request.body["output_format"].is_null();
    let text = if wants_json {
        r#"{"title":"Scripted run"}"#
    } else {
        "Scripted run"
    };
    play(stream, request, &Turn::text(text), &StopSignal::default())?;
    Ok("side call")
}

fn play_whole(
    stream: &TcpStream,
    request: &ModelRequest<'_>,
    turn: &Turn,
    answer: &Answer,
    headers: BTreeMap<String, String>,
    pause: &StopSignal,
) -> io::Result<&'static str> {
    if turn.drop.is_some() {
        return Ok("drop");
    }
    if turn.stall.is_some() {
        pause.wait_for_disconnect(stream, || Ok(()));
        return Ok("stall");
    }
    if !turn.sse_error.is_null() {
        send_json(
            stream,
            500,
            headers,
            &error_body(request.dialect, 500, &turn.sse_error),
        )?;
        return Ok("sse_error");
    }
    let body = match request.dialect {
        Dialect::Responses => responses::whole(answer),
        Dialect::Chat => chat::whole(answer),
        Dialect::Anthropic => anthropic::whole(answer),
    };
    send_json(stream, 200, headers, &body)?;
    Ok("ok")
}

fn answer(request: &ModelRequest<'_>, turn: &Turn) -> Result<Answer, String> {
    let calls = turn
        .calls()
        .iter()
        .map(|tool| translate(tool, request))
        .collect::<Result<_, _>>()?;
    Ok(Answer {
        id: Answer::fresh_id(),
        model: request.model().to_owned(),
        thinking: turn.thinking.clone(),
        text: turn.text.clone(),
        calls,
        usage: turn.usage,
        with_usage: !turn.no_usage,
        stop: turn.stop.clone(),
        chunk_chars: turn.chunk_chars.unwrap_or(16),
        bad_args: turn.malformed == Some(Malformed::Args),
    })
}

fn events(request: &ModelRequest<'_>, answer: &Answer) -> Vec<SseEvent> {
    match request.dialect {
        Dialect::Responses => responses::events(answer),
        Dialect::Chat => {
            let asked = request.body["stream_options"]["include_usage"] == true;
            chat::events(answer, asked && answer.with_usage)
        }
        Dialect::Anthropic => anthropic::events(answer),
    }
}

/// Returns the index of the event before which a fault happens.
fn index_of_point(events: &[SseEvent], place: StreamPoint) -> usize {
    let middle_of = |part: Part| {
        let of_part: Vec<usize> = (0..events.len()).filter(|&at| events[at].part == part).collect();
        of_part.get(of_part.len() / 2).copied()
    };
    match place {
        StreamPoint::Headers => 0,
        StreamPoint::Start => 1,
        StreamPoint::Mid => middle_of(Part::Text).unwrap_or(events.len() / 2),
        StreamPoint::Tool => middle_of(Part::ToolArgs).unwrap_or(events.len() / 2),
        StreamPoint::BeforeDone => events.len() - 1,
    }
}

fn ping(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        Dialect::Responses | Dialect::Chat => ": ping\n\n",
    }
}

fn sse_error(dialect: Dialect, error: &Value) -> SseEvent {
    let code = error
        .as_str()
        .or_else(|| error["code"].as_str())
        .or_else(|| error["type"].as_str());
    let code = code.unwrap_or("server_error");
    let message = error["message"].as_str().unwrap_or("a scripted error");
    match dialect {
        Dialect::Responses => responses::error_event(code, message),
        Dialect::Chat => chat::error_event(code, message),
        Dialect::Anthropic => anthropic::error_event(code, message),
    }
}

fn content_type(request: &ModelRequest<'_>) -> &'static str {
    if request.streams() {
        "text/event-stream"
    } else {
        "application/json"
    }
}

fn send_json(
    stream: &TcpStream,
    status: u16,
    mut headers: BTreeMap<String, String>,
    body: &Value,
) -> io::Result<()> {
    headers.insert("content-type".to_owned(), "application/json".to_owned());
    respond(stream, status, &headers, body.to_string().as_bytes(), true)
}

/// Returns the body of an HTTP error: the script's own object, or the dialect's with its message.
pub(crate) fn error_body(dialect: Dialect, status: u16, error: &Value) -> Value {
    if error["error"].is_object() {
        return error.clone();
    }
    let (open_ai, anthropic) = match status {
        400 => ("invalid_request_error", "invalid_request_error"),
        401 => ("invalid_api_key", "authentication_error"),
        403 => ("permission_denied", "permission_error"),
        404 => ("model_not_found", "not_found_error"),
        413 => ("request_too_large", "request_too_large"),
        429 => ("rate_limit_exceeded", "rate_limit_error"),
        503 | 529 => ("server_is_overloaded", "overloaded_error"),
        _ => ("server_error", "api_error"),
    };
    let message = error.as_str().or_else(|| error["message"].as_str());
    let message = message.map_or_else(|| format!("scripted error {status}"), str::to_owned);
    let code = error["code"].as_str().or_else(|| error["type"].as_str());
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": code.unwrap_or(anthropic), "message": message},
                "request_id": "req_scripted"})
        }
        Dialect::Responses | Dialect::Chat => {
            let kind = error["type"].as_str().unwrap_or(open_ai);
            json!({"error": {"message": message, "type": kind, "param": null, "code": code.unwrap_or(open_ai)}})
        }
    }
}

impl StopSignal {
    /// Sleeps, but no longer than the server runs.
    pub(crate) fn sleep(&self, millis: u64) {
        if millis > 0 {
            self.wait(Duration::from_millis(millis));
        }
    }

    /// Waits until the client disconnects or the server stops; calls `tick` about every half
    /// second.
    pub(crate) fn wait_for_disconnect(&self, stream: &TcpStream, mut tick: impl FnMut() -> io::Result<()>) {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
        let mut byte = [0];
        while !self.is_stopped() {
            match stream.peek(&mut byte) {
                Ok(0) => return,
                // The client sends more while it waits; its disconnect may be noticed later.
                Ok(_) => {
                    if self.wait(Duration::from_millis(500)) {
                        return;
                    }
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
            if tick().is_err() {
                return;
            }
        }
    }
}
