//! The main loop: messages go in, commands come out, and the screen is drawn after changes.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use vik_client::{Client, Endpoint, Feed};

use crate::app::App;
use crate::error::TopError;
use crate::msg::{Command, Msg};
use crate::terminal::{self, Screen};
use crate::view::{Theme, view};

/// The minimum time between two draws without a key: over a slow line each draw is expensive.
const DRAW_PAUSE: Duration = Duration::from_millis(100);
/// The time before the feed is opened again.
const FEED_PAUSE: Duration = Duration::from_secs(3);
/// The maximum number of feed events that are handled before keys.
const BATCH: usize = 1_000;

type PendingWork = Pin<Box<dyn Future<Output = Msg> + Send>>;

/// Runs the dashboard until the user quits. `NO_COLOR` in the environment turns colours off.
///
/// The first request is sent before the dashboard takes over the terminal: if it fails, the error
/// is reported as for any other verb. Later errors are shown and retried.
///
/// # Errors
///
/// Returns an error without a terminal, if the terminal fails, or if the first request fails.
pub async fn run(endpoint: Endpoint) -> Result<(), TopError> {
    terminal::check()?;
    let client = Client::new(&endpoint, "vik-top").map_err(TopError::Daemon)?;
    let first = client.state().await.map_err(TopError::Daemon)?;
    let signals = Signals::new()?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let theme = Theme { color: !no_color };
    let mut screen = Screen::open()?;
    let size = screen.terminal.size().map_err(|source| TopError::Terminal {
        operation: "measure",
        source,
    })?;
    let size = (size.width, size.height);
    let now = Timestamp::now();
    let mut top = Dashboard {
        app: App::new(now, size, TimeZone::system(), client.target()),
        client,
        theme,
        work: FuturesUnordered::new(),
        is_quitting: false,
        needs_clear: false,
    };
    top.on_message(Msg::State(Ok(Box::new(first))));
    top.run_loop(&mut screen, signals).await
}

/// The signals that end the dashboard: it restores the terminal first.
struct Signals {
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, TopError> {
        let on = |kind| {
            signal(kind).map_err(|source| TopError::Terminal {
                operation: "watch the signals of",
                source,
            })
        };
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }
}

struct Dashboard {
    app: App,
    client: Client,
    theme: Theme,
    work: FuturesUnordered<PendingWork>,
    is_quitting: bool,
    /// Whether the terminal may show something else than what was drawn.
    needs_clear: bool,
}

/// The open feed, or the wait before it is opened.
enum FeedLink {
    Opening(Pin<Box<dyn Future<Output = Option<Feed>> + Send>>),
    Open(Box<Feed>),
}

impl FeedLink {
    fn opening(client: &Client, pause: Duration) -> Self {
        let client = client.clone();
        Self::Opening(Box::pin(async move {
            tokio::time::sleep(pause).await;
            client.feed().await.ok()
        }))
    }
}

impl Dashboard {
    async fn run_loop(&mut self, screen: &mut Screen, mut signals: Signals) -> Result<(), TopError> {
        let mut keys = EventStream::new();
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut link = FeedLink::opening(&self.client, Duration::ZERO);
        let mut draw_at = Instant::now();
        let mut changed = true;
        let client = self.client.clone();
        while !self.is_quitting {
            // A dead connection may look open: if the daemon does not respond, it is opened again.
            if self.app.connection_error.is_some() && matches!(link, FeedLink::Open(_)) {
                link = FeedLink::opening(&client, FEED_PAUSE);
                self.on_message(Msg::FeedLost);
            }
            if changed && Instant::now() >= draw_at {
                self.draw(screen)?;
                changed = false;
                draw_at = Instant::now() + DRAW_PAUSE;
            }
            tokio::select! {
                            biased;
                            _ = signals.terminate.recv() => return Ok(()),
                            _ = signals.hangup.recv() => return Ok(()),
                            event = keys.next() => {
                                let Some(event) = event else { return Ok(()) };
                                self.on_terminal(event)?;
                                // A key takes effect at once.
                                draw_at = Instant::now();
                                changed = true;
                            }
                            () = sleep_until(draw_at), if changed => {}
                            _ = seconds.tick() => {
                                self.on_message(Msg::Tick);
                                changed = true;
                            }
                            Some(message) = self.work.next(), if !self.work.is_empty() => {
                                self.on_message(message);
                                changed = true;
                            }
            messages = feed(&mut link, &client) => {
                                messages.into_iter().for_each(|message| self.on_message(message));
                                changed = true;
                            }
                        }
        }
        Ok(())
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), TopError> {
        self.app.apply_feed();
        let failed = |source| TopError::Terminal {
            operation: "write to",
            source,
        };
        if std::mem::take(&mut self.needs_clear) {
            screen.terminal.clear().map_err(failed)?;
        }
        // The size may change before its event arrives.
        let size = screen.terminal.size().map_err(failed)?;
        if (size.width, size.height) != self.app.size {
            self.on_message(Msg::Resize(size.width, size.height));
        }
        screen
            .terminal
            .draw(|frame| view(&self.app, self.theme, frame))
            .map(drop)
            .map_err(failed)
    }

    fn on_terminal(&mut self, event: io::Result<Event>) -> Result<(), TopError> {
        let event = event.map_err(|source| TopError::Terminal {
            operation: "read from",
            source,
        })?;
        match event {
            Event::Key(key) => self.on_message(Msg::Key(key)),
            Event::Paste(text) => self.on_message(Msg::Paste(text)),
            Event::Resize(columns, rows) => self.on_message(Msg::Resize(columns, rows)),
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {}
        }
        Ok(())
    }

    fn on_message(&mut self, message: Msg) {
        let commands = self.app.update(Timestamp::now(), message);
        self.is_quitting |= commands.contains(&Command::Quit);
        self.needs_clear |= commands.contains(&Command::Redraw);
        start(commands, &self.client, &self.work);
    }
}

/// Waits for the next event of the feed, and returns all that are available with it. It is
/// cancel-safe.
async fn feed(link: &mut FeedLink, client: &Client) -> Vec<Msg> {
    let mut messages = Vec::new();
    let next = match link {
        FeedLink::Opening(opening) => match opening.await {
            Some(feed) => {
                messages.push(Msg::FeedOpen);
                Some(FeedLink::Open(Box::new(feed)))
            }
            None => Some(FeedLink::opening(client, FEED_PAUSE)),
        },
        FeedLink::Open(feed) => {
            let mut event = feed.next().await;
            loop {
                match event {
                    Some(event) => messages.push(Msg::Feed(event)),
                    None => {
                        messages.push(Msg::FeedLost);
                        break Some(FeedLink::opening(client, FEED_PAUSE));
                    }
                }
                match feed.next().now_or_never() {
                    Some(more) if messages.len() < BATCH => event = more,
                    Some(Some(more)) => {
                        messages.push(Msg::Feed(more));
                        break None;
                    }
                    _ => break None,
                }
            }
        }
    };
    if let Some(next) = next {
        *link = next;
    }
    messages
}

/// Starts the commands as futures beside the loop.
fn start(commands: Vec<Command>, client: &Client, work: &FuturesUnordered<PendingWork>) {
    for command in commands {
        let client = client.clone();
        let one: PendingWork = match command {
            Command::Quit | Command::Redraw => continue,
            Command::State => Box::pin(async move { Msg::State(client.state().await.map(Box::new)) }),
            Command::Issues(after) => Box::pin(async move {
                let page = client.issues(after.as_ref(), crate::app::ISSUES_PER_PAGE).await;
                Msg::Issues(page)
            }),
            Command::Issue(id) => Box::pin(async move {
                let explained = client.issue(&id).await.map(Box::new);
                Msg::Issue(id, explained)
            }),
            Command::Events(request) => Box::pin(async move {
                let page = client
                    .events(&request.session_id, request.after, request.limit)
                    .await;
                Msg::Events(request, page)
            }),
            Command::Diff(id) => Box::pin(async move {
                let diff = client.issue_diff(&id).await;
                Msg::Diff(id, diff)
            }),
            Command::Steer(action) => Box::pin(async move {
                let steered = client.act(&action).await;
                Msg::Steered(action, steered)
            }),
        };
        work.push(one);
    }
}
