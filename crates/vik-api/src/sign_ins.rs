//! Sign-ins: the browsers that may use the dashboard.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /api/v1/sign-in`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The code of the link that `vik status` prints; it works once.
    pub code: String,
}

/// The answer to `POST /api/v1/link`, on the control socket only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Opens the dashboard in a browser once.
    pub url: String,
}

/// The answer to `POST /api/v1/sign-in`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SignedIn {
    /// The version of this layout.
    pub schema: u32,
    /// The id of the sign-in, as in lists.
    pub id: String,
    /// The token for `Authorization: Bearer …`.
    pub token: String,
    /// The expiry time.
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
}

/// One sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignInView {
    /// Its id.
    pub id: String,
    /// When the browser signed in.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// The time of its last request; accurate to a few minutes after a restart of the daemon.
    #[schemars(with = "String")]
    pub last_used_at: Timestamp,
    /// The expiry time.
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
    /// The address of its last request.
    pub address: String,
    /// The user agent of the browser.
    pub user_agent: String,
    /// Whether the request came with this sign-in.
    #[serde(default)]
    pub current: bool,
}

/// `GET /api/v1/sign-ins`, `vik sign-ins --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SignInsPage {
    /// The version of this layout.
    pub schema: u32,
    /// The valid sign-ins, most recently used first.
    pub sign_ins: Vec<SignInView>,
}
