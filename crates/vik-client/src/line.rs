//! The stop of a daemon of the previous version, as a line on its control socket: its HTTP API had
//! no path for it. The daemon's half, for clients of the previous version, is in
//! `crates/vik-control/src/line.rs`.

use std::path::Path;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use vik_api::{ErrorBody, Problem, Steered};

use crate::client::{Client, TIMEOUT};
use crate::error::ClientError;

/// The response to a stop.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Accepted,
    Error(ErrorBody),
}

pub(crate) async fn stop(
    client: &Client,
    socket: &Path,
    keep_sessions: bool,
) -> Result<Steered, ClientError> {
    let request = match keep_sessions {
        true => "{\"v\":1,\"verb\":\"stop\",\"keep_sessions\":true}\n",
        false => "{\"v\":1,\"verb\":\"stop\"}\n",
    };
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await?;
        Ok(line)
    };
    let exchange = async {
        exchange.await.map_err(|source| ClientError::Connect {
            target: client.target().to_owned(),
            source,
        })
    };
    let line = client.with_timeout(TIMEOUT, exchange).await?;
    match serde_json::from_str(&line).map_err(|source| client.decode(source))? {
        Response::Accepted => Ok(Steered {
            count: 0,
            nothing: None,
        }),
        Response::Error(error) => Err(ClientError::Refused(Box::new(Problem::new(
            503,
            "Service Unavailable",
            error,
        )))),
    }
}
