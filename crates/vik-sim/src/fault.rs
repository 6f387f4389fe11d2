//! Faults planted around the core, which show that the checks find them.

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident = $label:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name for `--fault`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $label),* }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*).trim_ascii()),* }
            }
        }
    };
}

faults! {
    /// The end of an attempt is told while its process tree lives.
    ClaimFreedEarly = "claim_freed_early";
    /// The life counters of issues are lost at a restart.
    CountersReset = "counters_reset";
    /// Attempts that a person allowed are invented at a restart: the life limit moves.
    LifeLimitMoved = "life_limit_moved";
    /// A start is carried out twice.
    DoubleSpawn = "double_spawn";
    /// An attempt that lives is not taken up after a restart.
    AdoptionSkipped = "adoption_skipped";
    /// Attempts are started anew after a restart, beside what lives.
    AdoptionDoubles = "adoption_doubles";
    /// Parked entries are lost at a restart.
    ParkedForgotten = "parked_forgotten";
    /// A pause is lost at a restart.
    PauseForgotten = "pause_forgotten";
    /// An attempt is charged twice.
    ChargedTwice = "charged_twice";
    /// A failed attempt without figures is charged nothing.
    ChargedNever = "charged_never";
    /// A commit is acknowledged, and a crash takes it back.
    AckedEarly = "acked_early";
    /// Effects are carried out before their changes are durable.
    ActedEarly = "acted_early";
    /// The core does not hear of blockers.
    BlockersUnheard = "blockers_unheard";
    /// The core does not hear what issues say of their scope, nor who wrote them.
    ScopesUnheard = "scopes_unheard";
    /// The core lets issues with overlapping scopes run at once.
    ScopesCross = "scopes_cross";
    /// After a restart an approval is taken for one of whatever the issue says by then.
    ApprovalsWiden = "approvals_widen";
    /// The day's counter is lost at a restart.
    DayReset = "day_reset";
    /// An old report is taken for the end of the attempt that runs now.
    StaleEndAccepted = "stale_end_accepted";
    /// The end of an attempt is never told: its slot leaks.
    SlotLeaks = "slot_leaks";
    /// A pull is taken for the one before, whatever it brings.
    ChangesUnread = "changes_unread";
    /// An issue that comes back into a state looks like one that a person changed.
    FlapFrees = "flap_frees";
    /// A stop is not carried out.
    StopIgnored = "stop_ignored";
    /// What an attempt spends is not heard while it runs.
    SpendUnheard = "spend_unheard";
    /// The core sees more slots than the workflow has.
    SlotsWiden = "slots_widen";
    /// The wall clock is taken for the monotonic one.
    WallForMono = "wall_for_mono";
    /// A workspace is removed while an agent lives in it.
    RemovedUnderAgent = "removed_under_agent";
    /// A workspace that is to be removed stays.
    RemovalForgotten = "removal_forgotten";
    /// Hooks are run again after a restart, although their end is on disk.
    HooksAgain = "hooks_again";
    /// An attempt that is taken up begins from the start again.
    JournalIgnored = "journal_ignored";
}

impl std::str::FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || {
            Self::ALL
                .iter()
                .map(|fault| fault.name())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let found = Self::ALL.iter().copied().find(|fault| fault.name() == name);
        found.ok_or_else(|| format!("no fault is named `{name}`; there are: {}", names()))
    }
}
