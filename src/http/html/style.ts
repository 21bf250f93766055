/** The style of all HTML pages: mobile first, light and dark mode, no external resources. */
export const style = `
:root{--ground:#f6f6f4;--card:#fff;--ink:#1c1c1a;--soft:#63635e;--line:#d9d9d4;--act:#1d5c43;--on-act:#fff;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ground:#161615;--card:#20201e;--ink:#ecece8;--soft:#a3a39c;--line:#3a3a37;--act:#7fd1ab;--on-act:#0d2419;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:36rem;padding:1.5rem 1rem 4rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
body.narrow{max-width:25rem;padding-top:12vh}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.1rem;margin:0 0 .5rem}
p{margin:.5rem 0}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.25rem;margin:0 0 1rem}
label{display:block;margin:.75rem 0;font-weight:500}
form>label:first-child{margin-top:0}
input{display:block;width:100%;margin-top:.25rem;padding:.6rem .75rem;border:1px solid var(--soft);border-radius:8px;background:var(--card);color:inherit;font:inherit}
button{min-height:2.75rem;padding:.5rem 1rem;border:1px solid var(--act);border-radius:8px;background:var(--act);color:var(--on-act);font:inherit;font-weight:600;cursor:pointer}
button.plain{background:transparent;color:var(--act)}
button.quiet{background:transparent;border-color:transparent;color:var(--soft);font-weight:400}
button.danger{background:transparent;border-color:var(--bad);color:var(--bad)}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:3px solid var(--act);outline-offset:2px}
h1:focus,h2:focus{outline:none}
.buttons{display:flex;flex-wrap:wrap;gap:.5rem;margin:.75rem 0 0}
.narrow .buttons button{flex:1 1 100%}
.soft{color:var(--soft);font-size:.9rem}
ul{list-style:none;margin:.5rem 0;padding:0}
li{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;justify-content:space-between;padding:.6rem 0;border-top:1px solid var(--line)}
li>div:first-child{flex:1 1 12rem}
code,pre{font:0.95rem/1.7 ui-monospace,monospace}
pre{margin:.5rem 0;padding:.75rem;border:1px solid var(--line);border-radius:8px;columns:2 8rem}
[role=alert]{color:var(--bad);font-weight:500}
[role=alert]:empty,[role=status]:empty{display:none}
svg.qr{display:block;width:min(14rem,100%);margin:.75rem 0;border-radius:8px;background:#fff}
dialog{max-width:26rem;width:calc(100% - 2rem);border:1px solid var(--line);border-radius:12px;background:var(--card);color:inherit;padding:1.25rem}
dialog::backdrop{background:#0008}
`
