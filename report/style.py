"""PURE: how a page looks: on screens light and dark, on a phone, on paper."""

import base64
import hashlib

from report.palette import DARK, LIGHT, variables

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","Liberation Sans",Arial,sans-serif;overflow-wrap:anywhere}
code,pre,.id{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.875em}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-999px}
.skip:focus{left:16px;top:8px;background:var(--card);padding:4px 10px}
.wrap{max-width:1040px;margin:0 auto;padding:0 24px}
header.wrap{padding-top:36px;padding-bottom:18px}
header .over{margin:0;color:var(--muted);font-size:.875rem;font-weight:600}
h1{margin:4px 0 8px;font-size:1.625rem;line-height:1.25;font-weight:650;letter-spacing:-.01em}
h1 .id{font-size:.92em}
header .about{margin:0 0 4px;color:var(--muted)}
nav ul{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:16px 0 0;padding:12px 0 0;
border-top:1px solid var(--line);font-size:.9375rem}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:22px 26px 24px;margin:0 0 18px}
section>:last-child,.pair>div>:last-child{margin-bottom:0}
h2{margin:0 0 14px;font-size:1.1875rem;line-height:1.3;font-weight:650}
h3{margin:0 0 12px;font-size:1rem;font-weight:650}
p{margin:0 0 10px;max-width:76ch}
#result{background:none;border:0;padding:0}
#result>h2{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.results,.pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:18px}
.pair{gap:18px 36px}
#result .pair{gap:18px}
.stack>div+div{margin-top:22px;padding-top:20px;border-top:1px solid var(--line)}
.results.stacked{grid-template-columns:minmax(0,1fr)}
.results{grid-template-columns:minmax(0,3fr) minmax(0,2fr)}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.card>div{padding:16px 24px 20px}
.card>div>:last-child{margin-bottom:0}
.card pre{margin-bottom:10px}
.good{--mark:var(--good);--tint:var(--good-tint)}
.bad{--mark:var(--bad);--tint:var(--bad-tint)}
.open{--mark:var(--open);--tint:var(--open-tint)}
.near{--mark:var(--near);--tint:var(--near-tint)}
.head{margin:0;max-width:none;padding:14px 24px 15px;
color:var(--mark);background:var(--tint);border-bottom:1px solid var(--line)}
.kind{display:block;color:var(--text);font-size:.875rem;font-weight:600;margin-bottom:2px}
.words{display:inline-flex;align-items:center;gap:10px;font-size:1.375rem;line-height:1.3}
.words strong{font-weight:650}
.mark{width:24px;height:24px;flex:none;fill:none;stroke:currentColor;stroke-width:2.6;stroke-linecap:round;
stroke-linejoin:round}
.reasons{margin:0 0 10px;padding-left:1.2em}
.reasons li{margin-bottom:4px}
.aside,.note,.missing,figcaption span{color:var(--muted);font-size:.9375rem}
.missing{border-left:3px solid var(--line);padding:2px 0 2px 12px;margin-bottom:14px}
.badge{display:inline-grid;place-items:center;width:1.6em;height:1.6em;border-radius:50%;color:var(--card);
font-size:.8125rem;font-weight:700}
.badge.a{background:var(--a)}
.badge.b{background:var(--b);border-radius:5px}
.of-run{margin-top:4px}
dl{margin:0 0 14px}
dd{margin:0}
.tiles{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:1px;background:var(--line);
border:1px solid var(--line);border-radius:8px;overflow:hidden}
.tiles>div{background:var(--card);padding:12px 18px 14px}
dt{color:var(--muted);font-size:.875rem;font-weight:600}
.value{display:block;font-size:1.5rem;line-height:1.35;font-weight:600;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.value.unknown{font-size:1.0625rem;line-height:2;font-weight:500;color:var(--muted)}
.note{display:block;font-size:.8125rem;line-height:1.4}
dl.facts>div{display:grid;grid-template-columns:minmax(120px,220px) minmax(0,1fr);gap:2px 16px;padding:6px 0;
align-items:baseline;border-bottom:1px solid var(--line)}
dl.facts>div:last-child{border-bottom:0}
figure{margin:0 0 20px}
figure>:last-child,section>.scroll:last-child{margin-bottom:0}
figcaption{margin-bottom:8px}
figcaption strong{display:block}
.chart{display:block;width:100%;height:auto;overflow:visible;font-family:inherit}
.chart.narrow{display:none;max-width:480px;margin:0 auto}
.chart text{fill:var(--muted);font-variant-numeric:tabular-nums}
.chart .axis-title{font-weight:600}
.chart .label,.chart .told{fill:var(--text);paint-order:stroke;stroke:var(--card);
stroke-width:5px;stroke-linejoin:round}
.grid{stroke:var(--line);stroke-width:1}
.grid.base{stroke:var(--muted)}
.series{color:var(--a)}
.series.b,.key.b{color:var(--b)}
.series path{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.series.b path{stroke-dasharray:7 4}
.series.marks path{stroke-width:1.25;stroke-dasharray:2 4}
.series circle{fill:var(--card);stroke:currentColor;stroke-width:2.25}
.bar{fill:var(--a)}
.bar.b{fill:var(--b)}
.bar.model{fill:var(--card);stroke:var(--muted);stroke-width:1.5;stroke-dasharray:4 3}
.whisker{stroke:var(--muted);stroke-width:1.5}
line.marker{stroke:var(--held);stroke-width:2;stroke-dasharray:5 3}
.chart text.marker{fill:var(--held);font-weight:600}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:8px 0 14px;padding:0;font-size:.9375rem}
.legend li{display:inline-flex;align-items:center;gap:8px}
.key{flex:none;width:26px;height:0;border-top:3px solid currentColor;color:var(--a)}
.key.b{border-top-style:dashed}
.key.marks{width:12px;height:12px;border:2.5px solid currentColor;border-radius:50%}
.scroll{overflow-x:auto;margin:0 0 16px}
table{border-collapse:collapse;width:100%;font-size:.9375rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
.caption{font-weight:600;margin:0 0 6px;font-size:.9375rem}
th,td{text-align:left;vertical-align:top;padding:6px 14px 6px 0;border-bottom:1px solid var(--line);font-weight:400}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--muted);font-size:.875rem;font-weight:600;vertical-align:bottom}
tbody tr:last-child>*{border-bottom:0}
.numbers th:not(:first-child),.numbers td{text-align:right}
.facts th{width:34%}
.compared th:last-child,.compared td:last-child{white-space:nowrap}
.facts th,.facts td{overflow-wrap:anywhere}
.facts td:last-child{width:auto}
.devices td:nth-child(2),.devices thead th:nth-child(2){text-align:left}
.differs>*{background:var(--sunk)}
.differs>:first-child{box-shadow:inset 4px 0 0 var(--held);padding-left:14px}
.flag{font-weight:600;white-space:nowrap}
.matrix th,.matrix td{border:1px solid var(--line);padding:8px 12px}
.matrix th,.matrix .none{white-space:nowrap}
table:not(.facts) code{white-space:nowrap}
.matrix tbody tr:last-child>*{border-bottom:1px solid var(--line)}
.way{display:inline-block;border-radius:6px;padding:1px 9px;margin:1px 4px 1px 0;color:var(--text);
background:var(--tint);border:1px solid var(--mark);white-space:nowrap}
.way.fabric,.key.fabric{--mark:var(--a);--tint:var(--a-tint)}
.way.socket,.key.socket{--mark:var(--b);--tint:var(--b-tint)}
.way.near,.key.near{--mark:var(--near);--tint:var(--near-tint)}
.way.other,.key.other{--mark:var(--bad);--tint:var(--bad-tint)}
.key.way{width:16px;height:16px;border:2px solid var(--mark);border-radius:4px;margin:0;padding:0}
.none{color:var(--muted)}
details{margin:0 0 12px}
summary{cursor:pointer;color:var(--link);width:fit-content;padding:2px 0}
details[open]>summary{margin-bottom:8px}
pre{margin:0;padding:14px 16px;background:var(--sunk);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;
max-height:70vh;overflow:auto;line-height:1.45}
footer{color:var(--muted);font-size:.875rem;padding-bottom:32px}
@media screen and (max-width:760px){
.wrap{padding:0 14px}
header.wrap{padding-top:22px;padding-bottom:12px}
h1{font-size:1.25rem}
section{padding:16px 16px 18px}
.results,.pair{grid-template-columns:minmax(0,1fr)}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
.tiles>div{padding:10px 12px}
.value{font-size:1.25rem}
.chart.wide{display:none}
.chart.narrow{display:block}
dl.facts>div{grid-template-columns:minmax(0,1fr)}
th,td{padding-right:10px}
table.plain,.plain tbody,.plain tr,.plain th,.plain td{display:block;width:auto}
.facts.compared{min-width:520px}
.compared .note{display:none}
.compared:not(.facts){font-size:.875rem}
.compared:not(.facts) th,.compared:not(.facts) td{padding-right:6px}
.differs>:first-child{padding-left:8px}
.plain thead{position:absolute;clip-path:inset(50%)}
.plain tbody th{border:0;padding-bottom:0;color:var(--muted);font-size:.875rem}
}
@media print{
@page{margin:14mm}
body{font-size:10.5pt;background:none;-webkit-print-color-adjust:exact;print-color-adjust:exact}
.wrap{max-width:none;padding:0}
header.wrap{padding:0 0 8px}
nav,.skip,details.data:not([open]){display:none}
section{border:0;border-top:1px solid var(--line);border-radius:0;padding:14px 0 4px;margin:0}
#result,#figures{border-top:0}
h2,h3,.caption{break-after:avoid}
figure,.card,.tiles>div,tr,.missing,.legend,.scroll,dl.facts>div{break-inside:avoid}
#record:not(:has(details[open])){display:none}
thead{display:table-header-group}
.scroll{overflow:visible}
pre{max-height:none}
}
"""

STYLE = (
    f":root{{color-scheme:light dark;{variables(LIGHT)}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}" + _RULES.replace("\n", "")
)

# Nothing is loaded and nothing runs: the one style sheet of the page is let in by its digest.
POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
