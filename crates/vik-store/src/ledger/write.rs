//! Writes changes as rows.

use rusqlite::{Connection, OptionalExtension as _, params};
use vik_core::changes::{Changes, Decision, EndedAttempt, RunOver, StartedAttempt};
use vik_core::ids::RunId;
use vik_core::machine::{IssueMachine, Phase, WaitReason};
use vik_core::outputs::OutputNote;

use super::sql::{count, json, time};

/// The version of the JSON in `issues.machine`.
pub(super) const MACHINE_VERSION: i64 = 1;

/// Writes one set of changes. The caller owns the transaction.
pub(super) fn apply(db: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    for machine in &changes.machines {
        put_machine(db, machine)?;
    }
    for started in &changes.started {
        put_started(db, started)?;
    }
    for ended in &changes.ended {
        put_ended(db, ended)?;
    }
    // The claims come after the ends, because one set may end an attempt and start the next one of
    // the same stage.
    for started in &changes.started {
        put_claim(db, started)?;
    }
    for machine in &changes.machines {
        put_runs(db, machine)?;
    }
    for over in &changes.runs_over {
        put_over(db, over)?;
    }
    for (day, charges) in &changes.days {
        db.prepare_cached(
            "INSERT INTO days (day, tokens, usd_micro, estimated_tokens, estimated_usd_micro)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (day) DO UPDATE SET tokens = max(tokens, excluded.tokens),
               usd_micro = max(usd_micro, excluded.usd_micro),
               estimated_tokens = max(estimated_tokens, excluded.estimated_tokens),
               estimated_usd_micro = max(estimated_usd_micro, excluded.estimated_usd_micro)",
        )?
        .execute(params![
            day.to_string(),
            count(charges.total.tokens),
            count(charges.total.usd.0),
            count(charges.estimated.tokens),
            count(charges.estimated.usd.0),
        ])?;
    }
    if let Some(paused) = changes.paused {
        put_meta(db, "paused", if paused { "1" } else { "0" })?;
    }
    for decision in &changes.decisions {
        put_decision(db, decision)?;
    }
    for (run, note) in &changes.outputs {
        put_output(db, *run, note)?;
    }
    Ok(())
}

/// Sets a value of the table `meta`, which holds values of the whole ledger.
pub(super) fn put_meta(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![key, value])?;
    Ok(())
}

fn put_machine(db: &Connection, machine: &IssueMachine) -> rusqlite::Result<()> {
    let life = machine.life();
    let issue = machine.issue();
    let rowid = if machine.is_idle() {
        delete_in_use(db, machine)?
    } else {
        None
    };
    db.prepare_cached(
        "INSERT INTO issues (id, title, state, present, paused, attempts, extra_attempts, tokens, usd_micro,
           machine_version, machine, in_use, rowid)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (id) DO UPDATE SET title = excluded.title, state = excluded.state,
           present = excluded.present, paused = excluded.paused, attempts = excluded.attempts,
           extra_attempts = excluded.extra_attempts, tokens = excluded.tokens,
           usd_micro = excluded.usd_micro, machine_version = excluded.machine_version,
           machine = excluded.machine, in_use = excluded.in_use",
    )?
    .execute(params![
        issue.id.as_str(),
        &*issue.title,
        &*issue.state,
        machine.is_present(),
        machine.is_paused(),
        life.attempts,
        life.extra_attempts,
        count(life.spend.tokens),
        count(life.spend.usd.0),
        MACHINE_VERSION,
        json(machine)?,
        !machine.is_idle(),
        rowid,
    ])?;
    Ok(())
}

/// Deletes the row of an issue that was in use, so that it is inserted again. Returns its number.
///
/// The machine of an issue in use is several times as large as that of an idle one. SQLite merges
/// pages with little in them when it deletes a row, but not when an update makes it smaller: each
/// past issue would keep a page, which every start reads to check it.
fn delete_in_use(db: &Connection, machine: &IssueMachine) -> rusqlite::Result<Option<i64>> {
    let life = machine.life();
    // Attempts and runs refer to the row until it is there again.
    db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
    // Counters that would become smaller are left to the update, which refuses them.
    db.prepare_cached(
        "DELETE FROM issues WHERE id = ?1 AND in_use = 1 AND attempts <= ?2 AND tokens <= ?3 AND usd_micro <= ?4
         RETURNING rowid",
    )?
    .query_row(
        params![
            machine.issue().id.as_str(),
            life.attempts,
            count(life.spend.tokens),
            count(life.spend.usd.0)
        ],
        |row| row.get(0),
    )
    .optional()
}

/// Writes the rows of an issue's runs, which follow from its machine: runs that the machine no
/// longer has are over.
fn put_runs(db: &Connection, machine: &IssueMachine) -> rusqlite::Result<()> {
    let issue = machine.issue().id.as_str();
    db.prepare_cached("DELETE FROM parked WHERE issue = ?1")?
        .execute([issue])?;
    db.prepare_cached("UPDATE runs SET phase = 'over' WHERE issue = ?1 AND phase <> 'over'")?
        .execute([issue])?;
    for run in machine.runs() {
        db.prepare_cached(
            "INSERT INTO runs (id, issue, stage, attempts, phase) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, phase = excluded.phase",
        )?
        .execute(params![
            run.id.to_string(),
            issue,
            run.stage.as_str(),
            run.attempts,
            phase_name(&run.phase)
        ])?;
        if let Phase::Parked { since, reason, .. } = &run.phase {
            db.prepare_cached(
                "INSERT INTO parked (run, issue, stage, reason, since) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                run.id.to_string(),
                issue,
                run.stage.as_str(),
                reason.as_str(),
                time(*since)
            ])?;
        }
    }
    Ok(())
}

fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Active { .. } => "active",
        Phase::Settling { .. } => "settling",
        Phase::Awaiting { .. } => "awaiting_approval",
        Phase::Asking { .. } => "asking",
        Phase::HandingOver { .. }
        | Phase::BackingOff {
            why: WaitReason::HandOver,
            ..
        } => "handing_over",
        Phase::BackingOff { .. } => "backing_off",
        Phase::Parked { .. } => "parked",
    }
}

fn put_started(db: &Connection, started: &StartedAttempt) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO runs (id, issue, stage, attempts, phase) VALUES (?1, ?2, ?3, 0, 'active')
         ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        started.run.to_string(),
        started.issue.as_str(),
        started.stage.as_str()
    ])?;
    db.prepare_cached(
        "INSERT INTO attempts (session, run, issue, stage, agent, attempt, started_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (session) DO NOTHING",
    )?
    .execute(params![
        started.attempt_id.to_string(),
        started.run.to_string(),
        started.issue.as_str(),
        started.stage.as_str(),
        started.agent.as_str(),
        started.attempt,
        time(started.at),
    ])?;
    db.prepare_cached(
        "INSERT INTO sessions (session, resumed_from) VALUES (?1, ?2) ON CONFLICT (session) DO NOTHING",
    )?
    .execute(params![
        started.attempt_id.to_string(),
        started.resumed_from.map(|id| id.to_string())
    ])?;
    Ok(())
}

fn put_claim(db: &Connection, started: &StartedAttempt) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO claims (session, issue, stage)
         SELECT session, issue, stage FROM attempts WHERE session = ?1 AND ended_at IS NULL
         ON CONFLICT (session) DO NOTHING",
    )?
    .execute([started.attempt_id.to_string()])?;
    Ok(())
}

/// Writes the end of an attempt. A second end of the same attempt changes nothing; the end of an
/// unknown attempt violates the key of `usage`.
fn put_ended(db: &Connection, ended: &EndedAttempt) -> rusqlite::Result<()> {
    let session = ended.attempt_id.to_string();
    let report = &ended.report;
    db.prepare_cached(
        "UPDATE attempts SET ended_at = ?2, outcome = ?3, failure_class = ?4, proof = ?5, report = ?6
         WHERE session = ?1 AND ended_at IS NULL",
    )?
    .execute(params![
        session,
        time(ended.at),
        report.outcome.as_str(),
        report.failure_class.map(|class| class.as_str()),
        report.proof,
        json(report)?,
    ])?;
    db.prepare_cached("DELETE FROM claims WHERE session = ?1")?
        .execute([&session])?;
    let usage = report.usage;
    let charged = db
        .prepare_cached(
            "INSERT INTO usage (session, input_tokens, cached_input_tokens, cache_write_input_tokens,
               output_tokens, tokens, usd_micro, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (session) DO NOTHING",
        )?
        .execute(params![
            session,
            count(usage.input_tokens),
            count(usage.cached_input_tokens),
            count(usage.cache_write_input_tokens),
            count(usage.output_tokens),
            count(ended.charged.tokens),
            count(ended.charged.usd.0),
            ended.source.as_str(),
        ])?;
    if charged == 1 {
        db.prepare_cached(
            "UPDATE sessions SET provider_session_id = ?2, resume_failed = ?3 WHERE session = ?1",
        )?
        .execute(params![session, report.provider_session_id, report.resume_failed])?;
    }
    Ok(())
}

fn put_over(db: &Connection, over: &RunOver) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE runs SET phase = 'over', over_at = ?2, succeeded = ?3 WHERE id = ?1 AND over_at IS NULL",
    )?
    .execute(params![over.run.to_string(), time(over.at), over.succeeded])?;
    Ok(())
}

fn put_decision(db: &Connection, decision: &Decision) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO decisions (at, issue, stage, run, session, kind, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        time(decision.at),
        decision.issue.as_ref().map(|id| id.as_str()),
        decision.stage.as_ref().map(|name| name.as_str()),
        decision.run.map(|id| id.to_string()),
        decision.attempt_id.map(|id| id.to_string()),
        decision.kind.as_str(),
        decision.detail,
    ])?;
    Ok(())
}

/// Writes a note about an output. It refers to no other row, because the run may be over, and removed.
fn put_output(db: &Connection, run: RunId, note: &OutputNote) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO outputs (run, key, session, at, kind, summary, progress, is_keyed, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (run, key) DO UPDATE SET session = excluded.session, at = excluded.at,
           progress = excluded.progress, is_keyed = excluded.is_keyed, detail = excluded.detail",
    )?
    .execute(params![
        run.to_string(),
        note.key.as_str(),
        note.attempt_id.to_string(),
        time(note.at),
        note.kind.as_str(),
        note.summary,
        note.progress.as_str(),
        note.is_keyed,
        note.detail,
    ])?;
    Ok(())
}
