//! The browsers that are signed in to the dashboard.
//!
//! A browser keeps the token of its sign-in in the storage of the dashboard's origin, which
//! includes the port, and sends it with each request. The file holds only an HMAC of the token. Its
//! key is derived from the API token, so a new API token ends all sign-ins.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use vik_api::SignInView;
use vik_base::clock;
use vik_base::report::one_line;
use vik_mask::Label;
use vik_workspace::fs::{write_atomic, write_atomic_nosync};

use super::keys::{constant_time_eq, hex, new_secret};

/// How long a browser stays signed in.
const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The maximum number of browsers that are signed in. A further sign-in signs out the browser that
/// was least recently used.
const MAX_SIGN_INS: usize = 32;

/// The time of the last use is saved when the saved time is older than this.
const SAVE_USE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The longest `User-Agent` that is kept, in characters.
const MAX_USER_AGENT: usize = 160;

/// The version of the file's layout.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    /// An HMAC that shows with which API token the sign-ins were made.
    api_token_proof: String,
    sign_ins: Vec<Record>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    id: String,
    token_proof: String,
    created_at: Timestamp,
    last_used_at: Timestamp,
    expires_at: Timestamp,
    address: IpAddr,
    user_agent: String,
}

#[derive(Clone)]
struct Entry {
    record: Record,
    saved_use: Timestamp,
    revoked: CancellationToken,
}

/// The sign-in of a request.
#[derive(Clone, Debug)]
pub struct SignInRef {
    /// The id, as lists show it.
    pub id: String,
    /// When the sign-in expires.
    pub expires_at: Timestamp,
    /// Cancelled when the sign-in is revoked.
    pub revoked: CancellationToken,
}

impl SignInRef {
    /// Returns how long the sign-in is valid, by the wall clock: a timer stops while the machine is
    /// suspended.
    pub fn left(&self) -> Duration {
        Duration::try_from(self.expires_at.duration_since(clock::now())).unwrap_or_default()
    }
}

/// The sign-ins of one daemon.
pub struct SignIns {
    file: Option<PathBuf>,
    key: [u8; 64],
    entries: Mutex<Vec<Entry>>,
}

impl SignIns {
    /// Reads the sign-ins of an earlier daemon. Returns an empty list if that fails.
    pub fn load(file: &Path, api_token: &str) -> Self {
        let mut sign_ins = Self::in_memory(api_token);
        let records = match sign_ins.read(file) {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "cannot read the sign-ins of the dashboard: sign in again");
                Vec::new()
            }
        };
        let entries = records.into_iter().map(|record| Entry {
            saved_use: record.last_used_at,
            record,
            revoked: CancellationToken::new(),
        });
        *sign_ins.entries() = entries.collect();
        sign_ins.file = Some(file.to_owned());
        sign_ins
    }

    /// Returns an empty list that is not saved.
    pub fn in_memory(api_token: &str) -> Self {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&Sha256::digest(api_token.as_bytes()));
        Self {
            file: None,
            key,
            entries: Mutex::new(Vec::new()),
        }
    }

    fn read(&self, file: &Path) -> io::Result<Vec<Record>> {
        let bytes = match vik_workspace::fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read?,
        };
        let file: File = serde_json::from_slice(&bytes)?;
        let ours = file.schema == SCHEMA && constant_time_eq(&file.api_token_proof, &self.api_token_proof());
        Ok(if ours { file.sign_ins } else { Vec::new() })
    }

    /// Signs a browser in, and returns its token.
    ///
    /// # Errors
    /// When the sign-in cannot be saved. Nothing has changed then.
    pub fn create(
        &self,
        address: IpAddr,
        user_agent: &str,
        now: Timestamp,
    ) -> io::Result<(String, Timestamp)> {
        let mut entries = self.current(now);
        let id = new_id(&entries);
        let token = format!("{id}.{}", new_secret());
        vik_mask::learn([(Label::Key, token.clone())]);
        let record = Record {
            id,
            token_proof: self.token_proof(&token),
            created_at: now,
            last_used_at: now,
            expires_at: now + LIFETIME,
            address,
            user_agent: one_line(user_agent, MAX_USER_AGENT),
        };
        let expires_at = record.expires_at;
        let (mut new, mut signed_out) = (entries.clone(), Vec::new());
        while new.len() >= MAX_SIGN_INS {
            let oldest = (0..new.len()).min_by_key(|&at| new[at].record.last_used_at);
            signed_out.push(new.remove(oldest.unwrap_or(0)));
        }
        new.push(Entry {
            record,
            saved_use: now,
            revoked: CancellationToken::new(),
        });
        self.save(&mut new, write_atomic)?;
        *entries = new;
        for entry in signed_out {
            entry.revoked.cancel();
        }
        Ok((token, expires_at))
    }

    /// Returns the sign-in with this token, and records its use.
    pub fn find(&self, token: &str, address: IpAddr, now: Timestamp) -> Option<SignInRef> {
        let (id, _) = token.split_once('.')?;
        let mut entries = self.current(now);
        let entry = entries.iter_mut().find(|entry| entry.record.id == id)?;
        if !constant_time_eq(&self.token_proof(token), &entry.record.token_proof) {
            return None;
        }
        entry.record.last_used_at = now;
        entry.record.address = address;
        let found = SignInRef {
            id: entry.record.id.clone(),
            expires_at: entry.record.expires_at,
            revoked: entry.revoked.clone(),
        };
        if now.duration_since(entry.saved_use) > SAVE_USE_AFTER
            && let Err(error) = self.save(&mut entries, write_atomic_nosync)
        {
            tracing::debug!(%error, "cannot save the last use of a sign-in");
        }
        Some(found)
    }

    /// Lists the sign-ins that have not expired, the latest used first.
    pub fn list(&self, now: Timestamp) -> Vec<SignInView> {
        let entries = self.current(now);
        let mut views: Vec<_> = entries.iter().map(|entry| view(&entry.record)).collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.last_used_at));
        views
    }

    /// Revokes one sign-in, or all, with their event streams. Returns the number of revoked
    /// sign-ins.
    ///
    /// # Errors
    /// When the revocation cannot be saved: it then holds only until the daemon restarts.
    pub fn revoke(&self, id: Option<&str>, now: Timestamp) -> io::Result<usize> {
        let mut entries = self.current(now);
        let before = entries.len();
        entries.retain(|entry| {
            let stays = id.is_some_and(|id| entry.record.id != id);
            if !stays {
                entry.revoked.cancel();
            }
            stays
        });
        let count = before - entries.len();
        if count > 0 {
            self.save(&mut entries, write_atomic)?;
        }
        Ok(count)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sign-ins without those that have expired.
    fn current(&self, now: Timestamp) -> MutexGuard<'_, Vec<Entry>> {
        let mut entries = self.entries();
        entries.retain(|entry| now < entry.record.expires_at);
        entries
    }

    fn save(&self, entries: &mut [Entry], write: fn(&Path, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let file = File {
            schema: SCHEMA,
            api_token_proof: self.api_token_proof(),
            sign_ins: entries.iter().map(|entry| entry.record.clone()).collect(),
        };
        write(path, &serde_json::to_vec_pretty(&file)?)?;
        for entry in entries {
            entry.saved_use = entry.record.last_used_at;
        }
        Ok(())
    }

    fn api_token_proof(&self) -> String {
        self.proof("the api token of these sign-ins")
    }

    fn token_proof(&self, token: &str) -> String {
        self.proof(&format!("sign-in {token}"))
    }

    fn proof(&self, of: &str) -> String {
        let mut proof = Hmac::<Sha256>::new(&self.key.into());
        proof.update(of.as_bytes());
        hex(&proof.finalize().into_bytes())
    }
}

fn new_id(entries: &[Entry]) -> String {
    loop {
        let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        if entries.iter().all(|entry| entry.record.id != id) {
            return id;
        }
    }
}

fn view(record: &Record) -> SignInView {
    SignInView {
        id: record.id.clone(),
        created_at: record.created_at,
        last_used_at: record.last_used_at,
        expires_at: record.expires_at,
        address: record.address.to_string(),
        user_agent: record.user_agent.clone(),
        current: false,
    }
}

#[cfg(test)]
mod tests;
