//! `http`: the dashboard and the HTTP API on TCP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// `http`: where the dashboard and the HTTP API are served on TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// `port`; 0 selects a free one, and `None` serves nothing.
    pub port: Option<u16>,
    /// `bind`: the address to listen at.
    pub bind: IpAddr,
    /// `names`: host names, in lower case, that requests may use beside addresses of this machine.
    pub names: Vec<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            port: None,
            bind: Ipv4Addr::LOCALHOST.into(),
            names: Vec::new(),
        }
    }
}

impl Http {
    /// Returns the address to listen at. The options of the command line replace the keys.
    pub fn address(&self, port: Option<u16>, bind: Option<IpAddr>) -> Option<SocketAddr> {
        Some(SocketAddr::new(bind.unwrap_or(self.bind), port.or(self.port)?))
    }
}
