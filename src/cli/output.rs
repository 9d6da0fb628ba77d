//! Standard output for results, standard error for everything else.

use crate::cli::failure::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Writes one JSON object on a line of its own.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| io::Error::other(error.to_string()))?;
    text_line(&text)
}

/// Writes a text and, if it does not end its last line, a line end.
pub(crate) fn text_line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes a piece of a text and shows it at once.
pub(crate) fn piece(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One paragraph on what went wrong.
pub(crate) fn error(message: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr(), "error: {message}");
}

/// Something the user should know.
pub(crate) fn note(message: &str) {
    let _ = writeln!(io::stderr(), "note: {message}");
}

/// A line of figures on standard error.
pub(crate) fn figures(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A bar over `total` steps of `what` on standard error; nothing where that is no terminal.
pub(crate) fn bar(what: &'static str, total: usize) -> ProgressBar {
    let target =
        if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{msg:10} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

/// A table with columns as wide as their widest cell; cells of the columns from `numbers_from` on stand to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>], numbers_from: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths.get(column).copied().unwrap_or(0);
            let gap = if column == 0 { "" } else { "  " };
            let cell =
                if column >= numbers_from { format!("{cell:>width$}") } else { format!("{cell:width$}") };
            text += gap;
            text += &cell;
        }
        text.trim_end().to_owned() + "\n"
    };
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    line(&head) + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// A number of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
