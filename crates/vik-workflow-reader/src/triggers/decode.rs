//! The value types of these sections.

use std::net::SocketAddr;

use croner::Cron;
use jiff::tz::TimeZoneDatabase;
use schemars::{Schema, SchemaGenerator, json_schema};
use vik_yaml::Node;

use crate::decode::{Cx, Decode};
use crate::text::{did_you_mean, quoted};
use crate::values::Text;

/// The maximum length of a cron pattern.
const MAX_CRON: usize = 500;

/// An address and a port.
pub(crate) struct Address;

impl Decode for Address {
    type Value = SocketAddr;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<SocketAddr> {
        let text = Text::decode(node, cx)?;
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        let hint = "write an IP address and a port: `127.0.0.1:8787` or `\"[::1]:8787\"`";
        cx.refuse_text("bad_address", node, ("invalid address", &text), hint)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(\d+\.\d+\.\d+\.\d+|\[[0-9A-Fa-f:.%]+\]):\d+$" })
    }
}

/// The name of an HTTP header.
pub(crate) struct HeaderName;

const HEADER_PATTERN: &str = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$";

impl Decode for HeaderName {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let text = Text::decode(node, cx)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&byte);
        if text.len() <= 100 && text.bytes().all(fits) {
            return Some(text);
        }
        let hint = "write a name without a colon, such as `X-Signature`";
        cx.refuse_text("bad_header", node, ("invalid header name", &text), hint)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": HEADER_PATTERN })
    }
}

/// A cron pattern with at least one occurrence.
pub(crate) struct CronPattern;

impl Decode for CronPattern {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let text = Text::decode(node, cx)?;
        let why = if text.len() > MAX_CRON {
            "the pattern is too long".to_owned()
        } else {
            match text.parse::<Cron>() {
                // Any start date will do: only the existence of an occurrence matters.
                Ok(cron) => {
                    match cron.find_next_occurrence(&jiff::civil::date(2000, 1, 1).at(0, 0, 0, 0), true) {
                        Ok(_) => return Some(text),
                        Err(_) => "the date never occurs".to_owned(),
                    }
                }
                Err(error) => error.to_string().trim_end_matches('.').to_owned(),
            }
        };
        cx.refuse(cx
            .error(
                "bad_cron",
                node,
                format!("invalid cron pattern {}: {why}", quoted(&text)),
            )
            .hint(
                "write minute, hour, day of the month, month and day of the week; `0 3 * * *` is every day at 03:00",
            ))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_CRON })
    }
}

/// A name of the tz database.
pub(crate) struct Zone;

impl Decode for Zone {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let text = Text::decode(node, cx)?;
        // The bundled database, so that the meaning of a file does not depend on the machine.
        let zones = TimeZoneDatabase::bundled();
        if zones.get(&text).is_ok() {
            return Some(text);
        }
        let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
        let near = did_you_mean(&text, names.iter().map(String::as_str));
        let hint = near.unwrap_or_else(|| {
            "write a name of the tz database, such as `Europe/Berlin`, or `UTC`".to_owned()
        });
        cx.refuse_text("unknown_time_zone", node, ("unknown time zone", &text), hint)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}
