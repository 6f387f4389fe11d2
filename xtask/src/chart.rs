//! Line charts as SVG, for pages in Markdown.

use std::fmt::Write as _;
use std::path::Path;

use crate::repo::{self, TaskResult};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// The space for labels: left, right, top, bottom.
const MARGIN: [f64; 4] = [64.0, 16.0, 58.0, 44.0];
/// Colors that people who do not see all colors can tell apart, on a white background.
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"];
/// The most points of a line that get a dot each.
const MAX_DOTS: usize = 20;

/// A chart whose vertical axis starts at zero.
pub struct Chart {
    /// The name of the file, without its ending.
    pub file: &'static str,
    pub title: String,
    pub x: Axis,
    /// The label of the vertical axis.
    pub y: &'static str,
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub is_logarithmic: bool,
}

pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Creates a line from a horizontal and a vertical value of each item.
    pub fn new<T>(name: &'static str, items: &[T], x: impl Fn(&T) -> f64, y: impl Fn(&T) -> f64) -> Self {
        let points = items.iter().map(|item| (x(item), y(item))).collect();
        Self { name, points }
    }
}

/// Writes each chart to a folder.
pub fn write(charts: &[Chart], folder: &Path) -> TaskResult {
    for chart in charts {
        repo::write(&folder.join(format!("{}.svg", chart.file)), &chart.svg())?;
    }
    Ok(())
}

/// Returns the Markdown that shows charts from a folder.
pub fn images(charts: &[Chart], folder: &str) -> String {
    let image = |chart: &Chart| format!("![{}]({folder}/{}.svg)\n", chart.title, chart.file);
    charts.iter().map(image).collect()
}

impl Chart {
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let max_y = points().map(|point| point.1).fold(0.0, f64::max);
        let step_y = step(max_y);
        let top_y = (max_y / step_y).ceil().max(1.0) * step_y;
        let scale = |x: f64| if self.x.is_logarithmic { x.max(1.0).ln() } else { x };
        let max_x = points().map(|point| point.0).fold(1.0, f64::max);
        let min_x = if self.x.is_logarithmic {
            points().map(|point| point.0).fold(max_x, f64::min)
        } else {
            0.0
        };
        let span = (scale(max_x) - scale(min_x)).max(f64::MIN_POSITIVE);
        let [left, right, top, bottom] = MARGIN;
        let at_x = |x: f64| left + (scale(x) - scale(min_x)) / span * (WIDTH - left - right);
        let at_y = |y: f64| HEIGHT - bottom - y / top_y * (HEIGHT - top - bottom);

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
             <title>{0}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{left}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{0}</text>\n",
            escape(&self.title)
        );
        let mut text = |x: f64, y: f64, anchor: &str, label: &str| {
            let label = escape(label);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>"
            );
        };
        let mut grid = String::new();
        for tick in 0..=(top_y / step_y).round() as u32 {
            let value = f64::from(tick) * step_y;
            let y = at_y(value);
            text(left - 6.0, y + 4.0, "end", &number(value));
            let _ = writeln!(
                grid,
                "<path d=\"M{left} {y:.1}H{}\" stroke=\"#ddd\"/>",
                WIDTH - right
            );
        }
        for value in self.ticks_x(max_x) {
            text(at_x(value), HEIGHT - bottom + 18.0, "middle", &number(value));
        }
        text((left + WIDTH - right) / 2.0, HEIGHT - 8.0, "middle", self.x.label);
        text(left, top - 8.0, "end", self.y);
        let mut legend_x = left + 12.0;
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            text(legend_x + 22.0, 40.0, "start", line.name);
            let path: Vec<String> = line
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y)))
                .collect();
            let _ = writeln!(
                grid,
                "<path d=\"M{legend_x} 36h16\" stroke=\"{color}\" stroke-width=\"2\"/>\n\
                 <polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for point in path.iter().filter(|_| path.len() <= MAX_DOTS) {
                let (x, y) = point.split_once(',').unwrap_or_default();
                let _ = writeln!(grid, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{color}\"/>");
            }
            legend_x += 40.0 + line.name.chars().count() as f64 * 6.5;
        }
        svg + &grid + "</svg>\n"
    }

    fn ticks_x(&self, max: f64) -> Vec<f64> {
        if self.x.is_logarithmic {
            let mut values: Vec<f64> = self
                .lines
                .iter()
                .flat_map(|line| &line.points)
                .map(|point| point.0)
                .collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            return values;
        }
        let step = step(max);
        (0..=(max / step) as u32)
            .map(|tick| f64::from(tick) * step)
            .collect()
    }
}

/// Returns a round distance of about five ticks up to this value.
fn step(max: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let magnitude = 10_f64.powf((max / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    let found = steps.into_iter().find(|step| max / step <= 6.0);
    found.unwrap_or(10.0 * magnitude)
}

fn number(value: f64) -> String {
    if value >= 1000.0 && value % 1000.0 == 0.0 {
        format!("{},000", value / 1000.0)
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}").trim_end_matches('0').to_owned()
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_logarithmic: bool) -> String {
        Chart {
            file: "a",
            title: "CPU < memory".to_owned(),
            x: Axis {
                label: "issues",
                is_logarithmic,
            },
            y: "ms",
            lines: vec![Line::new(
                "daemon",
                &[(100.0, 0.0), (1000.0, 4.0), (10_000.0, 10.0)],
                |point| point.0,
                |point| point.1,
            )],
        }
        .svg()
    }

    #[test]
    fn lines_start_at_zero_and_fill_the_axes() {
        let svg = chart(false);
        assert!(
            svg.contains("points=\"70.4,276.0 128.0,188.8 704.0,58.0\""),
            "{svg}"
        );
        for label in [">10<", ">10,000<", ">daemon<", ">CPU &lt; memory<"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }

    #[test]
    fn logarithmic_axis_has_a_tick_at_each_point() {
        let svg = chart(true);
        assert!(
            svg.contains("points=\"64.0,276.0 384.0,188.8 704.0,58.0\""),
            "{svg}"
        );
        assert!(svg.contains(">1,000<"), "{svg}");
    }

    #[test]
    fn steps_are_round() {
        let steps = [0.0, 0.9, 7.0, 42.0, 100_000.0].map(step);
        assert_eq!(steps, [1.0, 0.2, 2.0, 10.0, 20_000.0]);
    }
}
