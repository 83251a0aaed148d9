//! A table of aligned columns, for people.

use std::fmt;

use anstyle::Style;

use crate::text::{self, FAINT, HEAD};

#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    right: bool,
    style: Style,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&'static str; N]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, row: [Cell; N]) {
        self.rows.push(row.into());
    }
}

impl Cell {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self {
            text: text::plain(text.as_ref()),
            right: false,
            style: Style::new(),
        }
    }

    /// A number, or anything that is compared from the right.
    pub(crate) fn number(number: impl fmt::Display) -> Self {
        Self {
            right: true,
            ..Self::text(number.to_string())
        }
    }

    /// What is known, or a sign that it is not.
    pub(crate) fn known<T>(value: Option<T>, told: impl FnOnce(T) -> String) -> Self {
        match value {
            Some(value) => Self::number(told(value)),
            None => Self::number("-").styled(FAINT),
        }
    }

    pub(crate) fn styled(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.text.chars().count()).max();
            widest.unwrap_or(0).max(self.head[column].len())
        };
        let widths: Vec<_> = (0..self.head.len()).map(width).collect();
        let right = |column: usize| {
            let first = self.rows.first().and_then(|row| row.get(column));
            first.is_some_and(|cell| cell.right)
        };
        let heads = self.head.iter().enumerate();
        let heads: Vec<_> = heads.map(|(at, head)| (*head, right(at), HEAD)).collect();
        write_row(f, &widths, &heads)?;
        for row in &self.rows {
            let cells = row.iter();
            let cells: Vec<_> = cells
                .map(|cell| (cell.text.as_str(), cell.right, cell.style))
                .collect();
            write_row(f, &widths, &cells)?;
        }
        Ok(())
    }
}

fn write_row(
    f: &mut fmt::Formatter<'_>,
    widths: &[usize],
    cells: &[(&str, bool, Style)],
) -> fmt::Result {
    for (at, ((text, right, style), width)) in cells.iter().zip(widths).enumerate() {
        let space = " ".repeat(width - text.chars().count());
        let before = if at > 0 { "  " } else { "" };
        match (right, at + 1 == cells.len()) {
            (true, _) => write!(f, "{before}{space}{style}{text}{style:#}")?,
            // Nothing stands behind the last word of a line.
            (false, true) => write!(f, "{before}{style}{text}{style:#}")?,
            (false, false) => write!(f, "{before}{style}{text}{style:#}{space}")?,
        }
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_shown() {
        let mut table = Table::new(["NAME", "COUNT", "LAST"]);
        table.row([Cell::text("a\u{1b}b"), Cell::number(7), Cell::text("x")]);
        table.row([
            Cell::text("ü"),
            Cell::known(None::<u64>, |n| n.to_string()),
            Cell::text("yy"),
        ]);
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(
            plain,
            "NAME      COUNT  LAST\na\\u{1b}b      7  x\nü             -  yy\n"
        );
    }
}
