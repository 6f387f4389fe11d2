//! Connections over TCP: how many may be open, and which are an agent's.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use vik_proc::TcpPeer;

use super::answer::Refusal;
use vik_base::report::ErrorCode;

/// How many connections with a token are served at once.
const MAX_AUTHORISED: usize = 1024;

/// How many connections without a token may be open.
const MAX_NEWCOMERS: usize = 256;

/// How long a connection may be open without a token.
const NEWCOMER_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the log repeats a warning that clients can cause.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Finds out who is at the other end of a connection from the one address to the other.
pub type Identify = Arc<dyn Fn(SocketAddr, SocketAddr) -> TcpPeer + Send + Sync>;

/// Limits a warning to one each minute.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<(Option<Instant>, u64)>);

impl LogLimit {
    /// Counts an event. Returns how many there were since the last warning, if the next one is due.
    pub fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        if state.0.is_some_and(|last| now.duration_since(last) < LOG_EVERY) {
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

/// The origin of a connection. All origins have an equal right to places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// A user of this machine.
    User(u32),
    /// Another machine. An IPv6 origin is a network of 64 bits, because one machine may have all of
    /// its addresses.
    Network(IpAddr),
}

impl Origin {
    fn of(peer: SocketAddr, local: SocketAddr) -> Self {
        match (vik_proc::tcp_peer_user(peer, local), peer.ip().to_canonical()) {
            (Some(user), _) => Self::User(user),
            (None, IpAddr::V6(ip)) => {
                let network = ip.to_bits() >> 64 << 64;
                Self::Network(Ipv6Addr::from_bits(network).into())
            }
            (None, ip) => Self::Network(ip),
        }
    }
}

struct Newcomer {
    number: u64,
    origin: Origin,
    end: CancellationToken,
}

/// The connections without a token, oldest first.
struct Newcomers {
    most: usize,
    next: u64,
    waiting: Vec<Newcomer>,
}

impl Newcomers {
    fn new(most: usize) -> Self {
        Self {
            most,
            next: 0,
            waiting: Vec::new(),
        }
    }

    /// Adds a connection. If there is no room, the oldest connection of the origin with the most
    /// connections is closed, so that a flood closes its own. Returns whether one was closed.
    fn enter(&mut self, origin: Origin, end: CancellationToken) -> (u64, bool) {
        let closes = self.waiting.len() >= self.most;
        if closes {
            let mut counts: HashMap<Origin, usize> = HashMap::new();
            for newcomer in &self.waiting {
                *counts.entry(newcomer.origin).or_default() += 1;
            }
            // Among equal origins, the one with the oldest connection is chosen.
            let most = counts.values().max();
            let victim = self
                .waiting
                .iter()
                .position(|newcomer| counts.get(&newcomer.origin) == most);
            self.waiting.remove(victim.unwrap_or(0)).end.cancel();
        }
        let number = self.next;
        self.next += 1;
        self.waiting.push(Newcomer { number, origin, end });
        (number, closes)
    }

    fn leave(&mut self, number: u64) {
        self.waiting.retain(|newcomer| newcomer.number != number);
    }
}

/// The places for connections over TCP.
pub struct TcpConnectionLimits {
    newcomers: Mutex<Newcomers>,
    authorised: Arc<Semaphore>,
    identify: Identify,
    closed: LogLimit,
    agents: LogLimit,
}

impl TcpConnectionLimits {
    /// Creates places that are all free, for `most` connections if the limits above are higher.
    pub fn new(identify: Identify, most: usize) -> Self {
        let max_newcomers = MAX_NEWCOMERS.min(most / 3).max(1);
        let max_authorised = MAX_AUTHORISED.min(most.saturating_sub(max_newcomers));
        Self {
            newcomers: Mutex::new(Newcomers::new(max_newcomers)),
            authorised: Arc::new(Semaphore::new(max_authorised)),
            identify,
            closed: LogLimit::default(),
            agents: LogLimit::default(),
        }
    }

    /// Adds a connection without a token. `end` is cancelled when it has to make room.
    pub fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        local: SocketAddr,
        end: CancellationToken,
    ) -> TcpConnection {
        let (number, closed) = self.newcomers().enter(Origin::of(peer, local), end);
        if closed && let Some(count) = self.closed.count() {
            tracing::warn!(
                count,
                "too many connections to the HTTP API without a token: the oldest were closed"
            );
        }
        TcpConnection {
            peer,
            local,
            number,
            places: Arc::clone(self),
            admission: OnceCell::new(),
        }
    }

    fn newcomers(&self) -> MutexGuard<'_, Newcomers> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of token that a connection has presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The API token. It is in a file, which an agent without a sandbox can read.
    Api,
    /// The token of a sign-in, or the code of a link for one: `vik status` prints it, and agents
    /// cannot ask for it.
    SignIn,
}

/// Why a connection with a token is refused.
#[derive(Clone, Copy, Debug)]
enum Denied {
    Agent,
    Full,
}

/// The place of a connection that has presented a token.
#[derive(Debug)]
struct Admitted {
    _permit: OwnedSemaphorePermit,
    is_hidden: bool,
}

/// One connection over TCP.
pub struct TcpConnection {
    peer: SocketAddr,
    local: SocketAddr,
    number: u64,
    places: Arc<TcpConnectionLimits>,
    admission: OnceCell<Result<Admitted, Denied>>,
}

impl std::fmt::Debug for TcpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TcpConnection({})", self.peer)
    }
}

impl TcpConnection {
    /// Returns the address of the other end.
    pub fn peer(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Returns the port of this end.
    pub fn port(&self) -> u16 {
        self.local.port()
    }

    /// Admits a connection that has presented a token, unless it comes from an agent. Its process
    /// is looked up once. If the process cannot be found, a token that agents can read is not
    /// enough.
    ///
    /// # Errors
    /// When the connection may not use the API, or too many connections are open.
    pub async fn admit(&self, token: Token) -> Result<(), Refusal> {
        match self.admission.get_or_init(|| self.decide_admission()).await {
            Ok(admitted) if admitted.is_hidden && token == Token::Api => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                ErrorCode::Refused,
                "cannot find the process of this connection, so it may belong to an agent",
            )
            .hint("with `ssh -L`, use the link that `vik status` prints, in a browser or with `vik top --url LINK`")),
            Ok(_) => Ok(()),
            Err(Denied::Agent) => Err(Refusal::agent()
            .hint("the process of this connection belongs to an agent or could not be determined")),
            Err(Denied::Full) => Err(Refusal::unavailable(ErrorCode::Busy, "too many connections are open")),
        }
    }

    async fn decide_admission(&self) -> Result<Admitted, Denied> {
        self.places.newcomers().leave(self.number);
        let authorised = Arc::clone(&self.places.authorised);
        let permit = authorised.try_acquire_owned().map_err(|_| Denied::Full)?;
        let (identify, peer, local) = (Arc::clone(&self.places.identify), self.peer, self.local);
        // The lookup holds the permit until it ends, even if the client disconnects.
        let lookup = move || match identify(peer, local) {
            TcpPeer::Descendant | TcpPeer::Unknown => None,
            found @ (TcpPeer::Other | TcpPeer::Hidden) => Some(Admitted {
                _permit: permit,
                is_hidden: found == TcpPeer::Hidden,
            }),
        };
        // A panic in the lookup must not admit the connection.
        if let Ok(Some(admitted)) = tokio::task::spawn_blocking(lookup).await {
            return Ok(admitted);
        }
        if let Some(count) = self.places.agents.count() {
            tracing::warn!(%peer, count, "refused a request of an agent with a token to the HTTP API");
        }
        Err(Denied::Agent)
    }

    /// Completes when the connection has not presented a token in time, or was refused.
    pub async fn timed_out(&self) {
        tokio::time::sleep(NEWCOMER_TIMEOUT).await;
        if matches!(self.admission.get(), Some(Ok(_))) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for TcpConnection {
    fn drop(&mut self) {
        self.places.newcomers().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_logged_once_a_minute_with_its_count() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        assert_eq!(limit.count_at(start), Some(1));
        for second in 1..60 {
            assert_eq!(limit.count_at(start + Duration::from_secs(second)), None);
        }
        assert_eq!(limit.count_at(start + LOG_EVERY), Some(60));
    }

    #[test]
    fn flood_of_one_user_closes_only_its_own_connections() {
        let mut newcomers = Newcomers::new(MAX_NEWCOMERS);
        let quiet = CancellationToken::new();
        newcomers.enter(Origin::User(1), quiet.clone());
        let flood: Vec<_> = (0..10 * MAX_NEWCOMERS)
            .map(|_| {
                let end = CancellationToken::new();
                newcomers.enter(Origin::User(2), end.clone());
                end
            })
            .collect();
        assert_eq!(newcomers.waiting.len(), MAX_NEWCOMERS);
        assert!(!quiet.is_cancelled());
        let late = CancellationToken::new();
        let (number, closed) = newcomers.enter(Origin::User(1), late.clone());
        assert!(closed && !late.is_cancelled() && !quiet.is_cancelled());
        let open = flood.iter().filter(|end| !end.is_cancelled()).count();
        assert_eq!(open, MAX_NEWCOMERS - 2);
        assert!(
            flood.last().is_some_and(|end| !end.is_cancelled()),
            "the oldest go first"
        );
        newcomers.leave(number);
        assert_eq!(newcomers.waiting.len(), MAX_NEWCOMERS - 1);
    }

    #[test]
    fn few_open_files_admit_few_clients() {
        let places = |most| TcpConnectionLimits::new(Arc::new(|_, _| TcpPeer::Other), most);
        let limits =
            |places: &TcpConnectionLimits| (places.newcomers().most, places.authorised.available_permits());
        assert_eq!(limits(&places(96)), (32, 64));
        assert_eq!(limits(&places(0)), (1, 0));
        assert_eq!(limits(&places(2048)), (MAX_NEWCOMERS, MAX_AUTHORISED));
    }

    #[tokio::test]
    async fn peer_lookup_keeps_its_permit_after_a_disconnect() {
        let (started, mut searches) = tokio::sync::mpsc::unbounded_channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let identify: Identify = Arc::new(move |_, _| {
            started.send(()).unwrap();
            ends.lock().unwrap().recv().unwrap();
            TcpPeer::Other
        });
        let places = Arc::new(TcpConnectionLimits::new(identify, usize::MAX));
        let (peer, local) = ("192.0.2.1:5".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
        let connection = places.enter(peer, local, CancellationToken::new());
        let client = tokio::spawn(async move { connection.admit(Token::Api).await.is_ok() });
        searches.recv().await.unwrap();
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        assert_eq!(places.authorised.available_permits(), MAX_AUTHORISED - 1);
        end.send(()).unwrap();
        let all = u32::try_from(MAX_AUTHORISED).unwrap();
        let _ = places.authorised.acquire_many(all).await.unwrap();
    }

    #[test]
    fn ipv6_network_is_one_origin() {
        let local = "[2001:db8:1::1]:80".parse().unwrap();
        let origin = |peer: &str| Origin::of(peer.parse().unwrap(), local);
        assert_eq!(origin("[2001:db8:2::1]:5"), origin("[2001:db8:2::ffff]:6"));
        assert_ne!(origin("[2001:db8:2::1]:5"), origin("[2001:db8:3::1]:5"));
        assert_ne!(origin("192.0.2.1:5"), origin("192.0.2.2:5"));
    }
}
