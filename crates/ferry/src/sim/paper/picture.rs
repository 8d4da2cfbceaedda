//! Pictures of documents: a file for each plot, and a page with all of them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use ferrywire_sim::papers::{Figure, Origin, Paper, Plot};
use plotters::prelude::*;

use super::{number, role_of, theirs_of};

/// Writes the plots of these documents into a folder, and a page that explains them.
pub(super) fn write(papers: &[Paper], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for plot in papers.iter().flat_map(|paper| &paper.plots) {
        fs::write(folder.join(format!("{}.svg", plot.file)), draw(plot)?)?;
    }
    fs::write(folder.join("index.html"), page(papers)?)
}

fn draw(plot: &Plot) -> io::Result<String> {
    let mut text = String::new();
    draw_into(plot, &mut text).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(text)
}

fn draw_into(plot: &Plot, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    // A logarithmic axis is one of exponents, which its labels hide.
    let place = |x: f64| if plot.log_x { x.max(1.0).log2() } else { x };
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let right = points().map(|point| place(point.0)).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max) * 1.12;
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(plot.title, ("sans-serif", 17))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..right * 1.02, 0.0..top)?;
    let label_x = |x: &f64| match plot.log_x {
        true if x.fract() > 0.01 => String::new(),
        true => format!("{:.0}", x.exp2()),
        false => format!("{x:.0}"),
    };
    let label_y = |y: &f64| match top > 10.0 {
        true => format!("{y:.0}"),
        false => format!("{y:.1}"),
    };
    chart
        .configure_mesh()
        .x_desc(plot.x)
        .y_desc(plot.y)
        .x_label_formatter(&label_x)
        .y_label_formatter(&label_y)
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for (curve, colour) in plot.curves.iter().zip(COLOURS.iter().cycle()) {
        let points = curve.points.iter().map(|&(x, y)| (place(x), y));
        if curve.theirs {
            let dots = points.map(|point| Circle::new(point, 4, BLACK.stroke_width(2)));
            chart
                .draw_series(dots)?
                .label(&curve.name)
                .legend(|(x, y)| Circle::new((x + 10, y), 4, BLACK.stroke_width(2)));
        } else {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperMiddle)
        .label_font(("sans-serif", 13))
        .background_style(WHITE)
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    area.present()?;
    drop(chart);
    Ok(())
}

const SIZE: (u32, u32) = (720, 430);

/// Distinct for most readers who cannot tell red from green.
const COLOURS: [RGBColor; 4] =
    [RGBColor(27, 120, 55), RGBColor(33, 102, 172), RGBColor(179, 90, 31), RGBColor(122, 79, 163)];

fn page(papers: &[Paper]) -> io::Result<String> {
    let mut page = String::from(HEAD);
    for paper in papers {
        add(&mut page, paper).map_err(io::Error::other)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn add(page: &mut String, paper: &Paper) -> std::fmt::Result {
    let Paper { name, title, parameters, figures, plots } = paper;
    writeln!(page, "<h2 id=\"{name}\">{}</h2>", escaped(title))?;
    for plot in plots {
        writeln!(page, "<img src=\"{}.svg\" alt=\"{}\">", plot.file, escaped(plot.title))?;
    }
    writeln!(page, "<table><tr><th>figure<th><th>document<th>ours<th>unit<th>difference<th></tr>")?;
    for figure in figures {
        add_figure(page, figure)?;
    }
    writeln!(page, "</table>\n<details><summary>The machine</summary>\n<table>")?;
    writeln!(page, "<tr><th>part<th>value<th>unit<th>source<th></tr>")?;
    for parameter in parameters {
        let (kind, source) = match parameter.origin {
            Origin::Given(place) => ("given", place),
            Origin::Fitted(on) => ("fitted on", on),
            Origin::Assumed(why) => ("assumed", why),
        };
        let value = number(parameter.value);
        let (what, unit, source) = (escaped(parameter.what), parameter.unit, escaped(source));
        writeln!(page, "<tr><td>{what}<td class=n>{value}<td>{unit}<td>{kind}<td>{source}</tr>")?;
    }
    writeln!(page, "</table></details>")
}

fn add_figure(page: &mut String, figure: &Figure) -> std::fmt::Result {
    let role = role_of(figure);
    let (place, what, unit) = (figure.place, escaped(&figure.what), figure.unit);
    let (theirs, ours) = (theirs_of(figure), number(figure.ours));
    let difference = figure.difference_percent();
    writeln!(
        page,
        "<tr class={role}><td>{place}<td>{what}<td class=n>{theirs}<td class=n>{ours}<td>{unit}\
         <td class=n>{difference:+.1} %<td>{role}</tr>"
    )?;
    match figure.reason.filter(|_| figure.differs()) {
        Some(reason) => {
            writeln!(page, "<tr><td><td colspan=6 class=why>Why: {}.</tr>", escaped(reason))
        }
        None => Ok(()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Ferrywire on the machines of five documents</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 14px }
th, td { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #ddd; vertical-align: top }
.n { text-align: right; white-space: nowrap }
.given, .fitted { color: #777 }
.MISSED { color: #b00 }
.why { color: #555; font-style: italic }
img { max-width: 100% }
</style>
</head>
<body>
<h1>Ferrywire on the machines of five documents</h1>
<p>Ferrywire is an MPI whose network interface (NIC) is software. The ideas of that NIC come from five documents, each of
which describes a machine and what was measured on it. Here the same NIC that runs in Ferrywire's jobs runs on a
simulation of each of these machines, and does what the authors did. Lines are ours; circles are points of a document,
where its text has any.</p>
<p>A machine has numbers. Some are <em>given</em> by the document; some are <em>assumed</em>, because it is silent; and some
are <em>fitted</em>: chosen so that a figure comes out right. Such a figure shows nothing, and is grey below. All others are
<em>predicted</em>: no number was chosen for them. A prediction should be within 20 % of the document, or in the range that
its text leaves. Where it is not, the reason follows.</p>
";
