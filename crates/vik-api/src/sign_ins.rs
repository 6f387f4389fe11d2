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

/// The answer to `POST /api/v1/sign-in`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SignedIn {
    /// The version of this layout.
    pub schema: u32,
    /// The id of the sign-in, as lists name it.
    pub id: String,
    /// What to send as `Authorization: Bearer …`.
    pub token: String,
    /// When it ends.
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
    /// When it last asked for something; exact to some minutes after a restart of the daemon.
    #[schemars(with = "String")]
    pub last_used_at: Timestamp,
    /// When it ends by itself.
    #[schemars(with = "String")]
    pub expires_at: Timestamp,
    /// The address that it last came from.
    pub address: String,
    /// What the browser calls itself.
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
    /// Those that hold, the latest used first.
    pub sign_ins: Vec<SignInView>,
}
