//! Reading a stream that comes in tiny pieces: each wake-up costs more than the piece that it is for.

use std::time::{Duration, Instant};

use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

/// A piece that comes sooner than this was on its way already.
const QUICK: Duration = Duration::from_millis(1);
/// After so many of those in a row, pieces are let gather.
const IN_A_ROW: u32 = 16;
/// For so long: nobody who watches sees it.
const GATHER: Duration = Duration::from_millis(4);

/// How fast pieces come.
#[derive(Debug, Default)]
pub(super) struct Pace {
    quick: u32,
}

impl Pace {
    /// The next piece of the answer; `None` at its end.
    pub(super) async fn next(
        &mut self,
        response: &mut reqwest::Response,
        wait: Duration,
    ) -> Result<reqwest::Result<Option<impl AsRef<[u8]> + use<>>>, Elapsed> {
        // What is there already needs no clock.
        tokio::select! {
            biased;
            piece = response.chunk() => return Ok(piece),
            () = std::future::ready(()) => {}
        }
        if self.quick >= IN_A_ROW {
            sleep(GATHER).await;
        }
        let begin = Instant::now();
        let piece = timeout(wait, response.chunk()).await;
        self.quick = if begin.elapsed() < QUICK {
            self.quick + 1
        } else {
            0
        };
        piece
    }
}
