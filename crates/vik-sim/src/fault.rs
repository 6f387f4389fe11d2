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
    /// The scheduler receives the end of an attempt while its process tree is running.
    ClaimFreedEarly = "claim_freed_early";
    /// An issue that comes back to memory is taken for a new one.
    RecallForgotten = "recall_forgotten";
    /// The life counters of issues are lost at a restart.
    CountersReset = "counters_reset";
    /// Messages that wait are lost at a restart.
    MessagesForgotten = "messages_forgotten";
    /// A recovered attempt does not report which messages its agent has taken.
    TakenUnreported = "taken_unreported";
    /// A restart forgets how many turns a conversation has had.
    TurnsForgotten = "turns_forgotten";
    /// A restart forgets which turn was granted to the process of an attempt.
    GrantForgotten = "grant_forgotten";
    /// The end of a turn is reported while the agent still works on it.
    TurnEndedEarly = "turn_ended_early";
    /// The scheduler does not see that a turn has moved its issue.
    TurnMoveUnseen = "turn_move_unseen";
    /// An agent whose further turn was refused gets one.
    RefusalIgnored = "refusal_ignored";
    /// A restart adds attempts that no person allowed, which raises the life limit.
    LifeLimitMoved = "life_limit_moved";
    /// A start is carried out twice.
    DoubleSpawn = "double_spawn";
    /// A running attempt is not adopted after a restart.
    AdoptionSkipped = "adoption_skipped";
    /// Attempts are started again after a restart, beside the running ones.
    AdoptionDoubles = "adoption_doubles";
    /// Parked entries are lost at a restart.
    ParkedForgotten = "parked_forgotten";
    /// A pause is lost at a restart.
    PauseForgotten = "pause_forgotten";
    /// An issue that a person has taken over starts again after a restart.
    TakeOverForgotten = "take_over_forgotten";
    /// Work that is not handed over is taken for handed over at a restart.
    HandOverForgotten = "hand_over_forgotten";
    /// A try to hand work over is carried out twice.
    HandOverDoubles = "hand_over_doubles";
    /// An attempt is charged twice.
    ChargedTwice = "charged_twice";
    /// A failed attempt that reported no usage is not charged.
    ChargedNever = "charged_never";
    /// A commit is acknowledged, and a crash loses it.
    AckedEarly = "acked_early";
    /// Effects are carried out before their changes are durable.
    ActedEarly = "acted_early";
    /// The scheduler does not receive blockers.
    BlockersUnheard = "blockers_unheard";
    /// The scheduler receives neither the scopes nor the authors of issues.
    ScopesUnheard = "scopes_unheard";
    /// The scheduler runs issues with overlapping scopes at the same time.
    ScopesCross = "scopes_cross";
    /// After a restart, an approval applies to the current text of the issue, even if the text changed.
    ApprovalsWiden = "approvals_widen";
    /// The conversations of earlier runs are lost at a restart.
    ConversationsForgotten = "conversations_forgotten";
    /// A restart forgets which comments and checks agents have read.
    ActivityForgotten = "activity_forgotten";
    /// A restart forgets how many rounds issues have had.
    RoundsForgotten = "rounds_forgotten";
    /// The scheduler takes the comments of everybody for those of trusted authors.
    StrangersHeard = "strangers_heard";
    /// Questions that wait for an answer are lost at a restart.
    QuestionsForgotten = "questions_forgotten";
    /// Answers to questions are lost at a restart.
    AnswersForgotten = "answers_forgotten";
    /// After a restart, answers are given again to a conversation that has them.
    AnswersRepeated = "answers_repeated";
    /// An attempt that asked counts as one that succeeded.
    QuestionCharged = "question_charged";
    /// The counter of the day is lost at a restart.
    DayReset = "day_reset";
    /// An old report is accepted as the end of the running attempt.
    StaleEndAccepted = "stale_end_accepted";
    /// The scheduler never receives the end of an attempt, so its slot leaks.
    SlotLeaks = "slot_leaks";
    /// A pull is treated as unchanged, whatever it contains.
    ChangesUnread = "changes_unread";
    /// An issue that returns to an earlier state is treated as changed by a person.
    FlapFrees = "flap_frees";
    /// A stop is lost at a restart.
    StopForgotten = "stop_forgotten";
    /// A stop is not carried out.
    StopIgnored = "stop_ignored";
    /// The scheduler does not receive the spending of running attempts.
    SpendUnheard = "spend_unheard";
    /// The scheduler sees more slots than the workflow has.
    SlotsWiden = "slots_widen";
    /// The wall clock is used as the monotonic clock.
    WallForMono = "wall_for_mono";
    /// A workspace is removed while an agent is running in it.
    RemovedUnderAgent = "removed_under_agent";
    /// A workspace that must be removed is kept.
    RemovalForgotten = "removal_forgotten";
    /// Hooks run again after a restart although their end is on disk.
    HooksAgain = "hooks_again";
    /// An adopted attempt starts again from its first step.
    JournalIgnored = "journal_ignored";
    /// After the first list of workers, the scheduler receives no other one.
    WorkersUnheard = "workers_unheard";
    /// The scheduler sees one place more on each worker.
    WorkersOverfull = "workers_overfull";
    /// The scheduler sees all labels on each worker.
    WorkerLabelsUnheard = "worker_labels_unheard";
    /// A restart forgets on which workers the workspaces are.
    WorkerForgotten = "worker_forgotten";
    /// An attempt that lost its worker counts as one that failed.
    WorkerLossCharged = "worker_loss_charged";
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
        found.ok_or_else(|| format!("unknown fault `{name}` (known faults: {})", names()))
    }
}
