//! The tabs and the current list.

use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::body::placeholder;
use super::details;
use super::paint::Paint;
use crate::app::{App, ScreenLayout, Tab, with_table};
use crate::table::{Row, Table, Tone, Width};

pub(super) fn draw(app: &App, rows: &ScreenLayout, paint: &mut Paint<'_>) {
    tabs(app, rows.bar, paint);
    let head = rows.bar + 1;
    with_table!(app, (&) list => table(app, list, head, rows.body, paint));
    if let Some(area) = rows.details {
        details::draw(app, area, paint);
    }
}

fn tabs(app: &App, y: u16, paint: &mut Paint<'_>) {
    let columns = app.size.0;
    let narrow = columns < 66;
    let mut x = 0;
    for (number, tab) in (1..).zip(app.tabs().iter().copied()) {
        let (name, shown, total) = match tab {
            Tab::Sessions => ("Sessions", app.sessions.shown(), app.sessions.total()),
            Tab::Parked => ("Parked", app.parked.shown(), app.parked.total()),
            Tab::Waiting => ("Waiting", app.waiting.shown(), app.waiting.total()),
            Tab::Issues => ("Issues", app.issues.shown(), app.issues.total()),
            Tab::Approvals => ("Approvals", app.approvals.shown(), app.approvals.total()),
            Tab::Workers => ("Workers", app.workers.shown(), app.workers.total()),
        };
        let more = match tab {
            Tab::Waiting => app.status.as_ref().map_or(0, |status| status.waiting_more),
            Tab::Issues => app.issues_total.unwrap_or(0).saturating_sub(total),
            _ => 0,
        };
        let of_all = total + more;
        let figure = match (&*app.filter, tab, app.issues_total) {
            // The list of issues is loaded when it is opened.
            (_, Tab::Issues, None) => String::new(),
            ("", ..) => format!(" {of_all}"),
            _ => format!(" {shown}/{of_all}"),
        };
        let text = match narrow {
            true => format!(" {number} {}{figure} ", &name[..4]),
            false => format!(" {number} {name}{figure} "),
        };
        let room = columns.saturating_sub(x);
        let used = paint.tone(x, y, room, &text, Tone::Plain);
        if tab == app.tab {
            let style = paint.theme.selected().add_modifier(Modifier::BOLD);
            paint.set_style(Rect::new(x, y, used, 1), style);
        }
        x += used;
    }
    if !app.filter.is_empty() {
        let style = paint.theme.tone(Tone::Warn);
        paint.put_right(
            x + 1,
            y,
            columns.saturating_sub(x + 2),
            &format!("filter: {}", app.filter),
            style,
        );
    }
}

/// Returns the visible columns with their widths.
fn columns<T: Row>(table: &Table<T>, width: u16) -> Vec<(usize, usize)> {
    let shown: Vec<usize> = (0..T::COLUMNS.len())
        .filter(|&at| T::COLUMNS[at].min_terminal_width <= width)
        .collect();
    let size = |at: usize| match T::COLUMNS[at].width {
        Width::Fixed(size) | Width::Fill(size, _) => size,
        Width::Fit(least, most) => table.content_widths[at].clamp(least, most),
    };
    let mut sizes: Vec<(usize, usize)> = shown.iter().map(|&at| (at, size(at))).collect();
    // Two columns in front for the mark, one between columns.
    let taken: usize = 2 + sizes.iter().map(|(_, size)| size + 1).sum::<usize>();
    let room = usize::from(width) + 1;
    if taken < room {
        let left = room - taken;
        let share = |at: usize| match T::COLUMNS[at].width {
            Width::Fill(_, share) => share,
            _ => 0,
        };
        let shares: usize = shown.iter().map(|&at| share(at)).sum();
        let mut given = 0;
        let last = shown.iter().rposition(|&at| share(at) > 0);
        for (place, (at, size)) in sizes.iter_mut().enumerate() {
            if share(*at) > 0 {
                let more = if Some(place) == last {
                    left - given
                } else {
                    left * share(*at) / shares
                };
                given += more;
                *size += more;
            }
        }
    } else {
        // Columns that fit their contents are shortened, the widest first.
        let mut over = taken - room;
        while over > 0 {
            let widest = sizes
                .iter_mut()
                .filter(|(at, size)| matches!(T::COLUMNS[*at].width, Width::Fit(least, _) if *size > least))
                .max_by_key(|(_, size)| *size);
            match widest {
                Some((_, size)) => *size -= 1,
                None => break,
            }
            over -= 1;
        }
    }
    sizes
}

/// Returns the first visible row: the selected one is kept in the middle.
fn first(selected: usize, shown: usize, rows: usize) -> usize {
    selected.saturating_sub(rows / 2).min(shown.saturating_sub(rows))
}

fn table<T: Row>(app: &App, table: &Table<T>, head: u16, body: Rect, paint: &mut Paint<'_>) {
    let columns = columns(table, body.width);
    titles(table, &columns, head, body.width, paint);
    if table.shown() == 0 {
        let text = empty_text(app, table.total());
        return placeholder(&text, Tone::Faint, body, paint);
    }
    let context = app.row_context();
    let from = first(table.selected(), table.shown(), usize::from(body.height));
    for (place, y) in (from..table.shown()).zip(body.top()..body.bottom()) {
        let Some(row) = table.row_at(place) else {
            continue;
        };
        #[cfg(test)]
        super::tests::BUILT.set(super::tests::BUILT.get() + 1);
        let chosen = place == table.selected();
        if chosen {
            paint.tone(0, y, 2, "> ", Tone::Strong);
        }
        let mut x = 2;
        let cells = row.cells(&context);
        for &(at, size) in &columns {
            let cell = &cells[at].content;
            let size = u16::try_from(size)
                .unwrap_or(u16::MAX)
                .min(body.width.saturating_sub(x));
            let style = paint.theme.tone(cell.tone);
            if T::COLUMNS[at].is_right {
                paint.put_right(x, y, size, &cell.text, style);
            } else {
                paint.put(x, y, size, &cell.text, style);
            }
            x = x.saturating_add(size + 1);
        }
        if chosen {
            let style = paint.theme.selected();
            paint.set_style(Rect::new(0, y, body.width, 1), style);
        }
    }
}

fn titles<T: Row>(table: &Table<T>, columns: &[(usize, usize)], y: u16, width: u16, paint: &mut Paint<'_>) {
    let mut x = 2;
    for &(at, size) in columns {
        let column = &T::COLUMNS[at];
        let mark = match table.sort {
            (sorted, false) if sorted == at => "+",
            (sorted, true) if sorted == at => "-",
            _ => "",
        };
        let size = u16::try_from(size)
            .unwrap_or(u16::MAX)
            .min(width.saturating_sub(x));
        // The mark must be visible: it replaces the last letter of a name that fills its column.
        let room = usize::from(size).saturating_sub(mark.len());
        let name = &column.name[..column.name.len().min(room)];
        let text = format!("{name}{mark}");
        let style = paint.theme.tone(Tone::Faint);
        if column.is_right {
            paint.put_right(x, y, size, &text, style);
        } else {
            paint.put(x, y, size, &text, style);
        }
        x = x.saturating_add(size + 1);
    }
    let style = ratatui::style::Style::new().add_modifier(Modifier::UNDERLINED);
    paint.set_style(Rect::new(0, y, width, 1), style);
}

/// Returns why a list is empty.
fn empty_text(app: &App, total: usize) -> String {
    if app.status.is_none() {
        return "Waiting for the daemon.".to_owned();
    }
    if total > 0 {
        return format!(
            "No row of {total} matches `{}`. Press / to change the filter, Esc to clear it.",
            app.filter
        );
    }
    let text = match app.tab {
        Tab::Sessions => "No agent is running. Press 3 for waiting issues, 2 for parked ones.",
        Tab::Parked => "No parked issues.",
        Tab::Waiting => "No waiting issues.",
        Tab::Issues if app.issues_total.is_none() => "Loading the issues.",
        Tab::Issues => "No issues.",
        Tab::Approvals => "No pending requests.",
        Tab::Workers => "No workers.",
    };
    text.to_owned()
}
