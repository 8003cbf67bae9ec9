/// What all pages have around their content.
struct Frame: Sendable {
    /// The socket or the store.
    let subject: String

    enum Place: String, CaseIterable {
        case now = "Now"
        case jobs = "Jobs"
        case rejected = "Rejected"
        case clients = "Clients"
        case data = "Data"
        case feed = "Feed"

        var link: String { self == .now ? "/" : "/" + rawValue.lowercased() }
    }

    /// - Parameters:
    ///   - place: of the navigation; nil for none.
    ///   - live: the address of the events that replace the content.
    func page(_ title: String, at place: Place?, live: String? = nil, _ content: HTML) -> HTML {
        let links = Place.allCases.map { other -> HTML in
            "<li><a href=\"\(other.link)\"\(" aria-current=page", if: other == place)>\(other.rawValue)</a></li>"
        }
        let source: HTML? = live.map { " data-live=\"\($0)\"" }
        return """
            <!doctype html><html lang=en><head><meta charset=utf-8><title>\(title.cut(to: 80)) – Broker</title>\
            <meta name=viewport content="width=device-width,initial-scale=1"><meta name=color-scheme content="light dark">\
            <link rel=icon href="/icon.svg"><link rel=stylesheet href="/style.css"><script src="/script.js" defer></script></head>\
            <body><a class=skip href="#content">Skip to the content</a><header><b>Broker</b><nav aria-label=Pages><ul>\(links)</ul></nav>\
            <span class=subject>\(subject)</span><span id=state role=status\(" hidden", if: live == nil)></span></header>\
            <main id=content tabindex=-1\(source)>\(content)</main></body></html>
            """
    }

    func answer(_ title: String, at place: Place?, live: String? = nil, status: Int = 200, _ content: HTML) -> Answer {
        .text(page(title, at: place, live: live, content).text, "text/html; charset=utf-8", status: status)
    }
}

/// The files that pages load.
enum Assets {
    static func answer(to path: [String]) -> Answer? {
        switch path {
        case ["style.css"]: .text(style, "text/css; charset=utf-8")
        case ["script.js"]: .text(script, "text/javascript; charset=utf-8")
        case ["icon.svg"]: .text(icon, "image/svg+xml")
        default: nil
        }
    }

    static let all = [style, script, icon]

    private static let icon = """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b5cad"/>\
        <path d="M3 4h5M3 8h10M3 12h5M8 4l4 4-4 4" stroke="#fff" stroke-width="1.5" fill="none"/></svg>
        """

    /// Replaces the content of a live page with each event, and says when no event comes any more. A page that is not seen has no
    /// connection, because a browser has six for one address.
    private static let script = """
        (() => {
        const main = document.querySelector("main[data-live]"), state = document.getElementById("state");
        if (!main || !window.EventSource) return;
        let source, late;
        const say = (text, isBad) => { if (state.textContent !== text) state.textContent = text; state.classList.toggle("bad", isBad); };
        const wait = () => { clearTimeout(late); late = setTimeout(() => say("not live", true), 15000); };
        const show = html => {
          const old = document.activeElement, selection = getSelection();
          if (!selection.isCollapsed && main.contains(selection.anchorNode)) return;
          const label = main.contains(old) && (old.getAttribute("href") || old.getAttribute("aria-label") || old.name);
          const scrolls = [...main.querySelectorAll(".scroll")].map(e => e.scrollLeft);
          main.innerHTML = html;
          main.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolls[i] || 0; });
          if (label) for (const e of main.querySelectorAll("a,button,input,.scroll"))
            if ([e.getAttribute("href"), e.getAttribute("aria-label"), e.name].includes(label)) { e.focus({preventScroll: true}); break; }
        };
        const open = () => {
          if (source || document.hidden) return;
          source = new EventSource(main.dataset.live);
          source.onmessage = e => { say("live", false); wait(); show(e.data); };
          source.onerror = () => say("not live", true);
          wait();
        };
        const close = () => { if (source) source.close(); source = null; clearTimeout(late); };
        document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
        addEventListener("pagehide", close);
        addEventListener("pageshow", open);
        open();
        })();
        """

    private static let style = """
        :root{--bg:#f7f8f9;--panel:#fff;--text:#1d2126;--muted:#56606b;--edge:#d8dce1;--link:#0b5cad;--bad:#b3261e;--warn:#8a4b00;\
        --good:#1b6e33;--hover:#eef3f9}
        @media (prefers-color-scheme:dark){:root{--bg:#14171a;--panel:#1b1f24;--text:#e3e6ea;--muted:#a0aab5;--edge:#323940;\
        --link:#82bbff;--bad:#ff8a80;--warn:#f0b060;--good:#7fd89a;--hover:#232a32}}
        *{box-sizing:border-box}
        body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
        a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
        :focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:2px}
        main:focus{outline:none}
        .skip{position:absolute;left:-999px;top:4px;background:var(--panel);padding:6px 12px;z-index:1}.skip:focus{left:8px}
        header{display:flex;flex-wrap:wrap;align-items:center;gap:4px 16px;padding:8px 20px;background:var(--panel);\
        border-bottom:1px solid var(--edge)}
        nav ul{display:flex;gap:4px;margin:0;padding:0;list-style:none}
        nav a{display:block;padding:4px 10px;border-radius:4px;color:var(--text)}nav a:hover{background:var(--hover);text-decoration:none}
        nav a[aria-current]{background:var(--link);color:var(--panel)}
        .subject{color:var(--muted);font-size:12.5px;margin-left:auto}
        #state{font-size:12px;color:var(--good)}#state::before{content:"● "}#state:empty{display:none}#state.bad{color:var(--bad)}
        main{padding:16px 20px 40px;max-width:1500px;margin:0 auto}
        h1{font-size:20px;margin:4px 0 12px;font-weight:650}h2{font-size:15px;margin:24px 0 8px;font-weight:650}
        p{margin:6px 0;max-width:75ch}.m{color:var(--muted)}
        .alert{border-left:4px solid var(--bad);background:var(--panel);color:var(--bad);padding:8px 12px;margin:0 0 14px;\
        font-weight:600;max-width:none}
        .note{border-left:4px solid var(--warn);background:var(--panel);padding:8px 12px;margin:8px 0;max-width:none}
        .facts{display:grid;grid-template-columns:repeat(5,1fr);background:var(--panel);border:1px solid var(--edge);\
        border-radius:6px;overflow:hidden;margin:0 0 14px}
        .facts div{padding:8px 12px;box-shadow:1px 1px 0 var(--edge)}.facts dt{font-size:12px;color:var(--muted)}
        .facts dd{margin:0;font-size:17px;font-variant-numeric:tabular-nums}.facts small{display:block;font-size:12px;color:var(--muted)}
        .charts{display:grid;grid-template-columns:repeat(3,1fr);gap:10px;margin:4px 0 16px}
        figure{margin:0;background:var(--panel);border:1px solid var(--edge);border-radius:6px;padding:8px 12px}
        figcaption{display:flex;gap:8px;align-items:baseline;font-size:13px}figcaption .m{margin-left:auto;font-size:12px}
        .now{font-variant-numeric:tabular-nums}
        .chart{display:block;width:100%;height:56px;margin-top:4px}
        .chart path{fill:none;vector-effect:non-scaling-stroke}.line{stroke:var(--link);stroke-width:1.5}.base{stroke:var(--edge)}
        .cols{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:0 20px;align-items:start}
        .scroll{overflow-x:auto;background:var(--panel);border:1px solid var(--edge);border-radius:6px;margin:0 0 12px}
        table{border-collapse:collapse;width:100%;font-size:13px}
        caption{text-align:left;padding:8px 12px;font-weight:650}
        th,td{text-align:left;padding:4px 12px;border-top:1px solid var(--edge);vertical-align:top;font-weight:400;\
        overflow-wrap:normal}
        thead th{color:var(--muted);font-size:12px;white-space:nowrap}
        td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
        tbody tr:hover{background:var(--hover)}
        .data td,.data tbody th{max-width:320px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
        .text{min-width:11em;overflow-wrap:anywhere}
        .null{color:var(--muted);font-style:italic}code,.mono,pre{font:12.5px/1.5 ui-monospace,monospace}
        pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;max-height:24em;overflow:auto}pre.scroll{padding:8px 12px;margin:0 0 12px}
        mark{background:var(--hover);color:var(--bad);font-weight:600}
        form{display:flex;flex-wrap:wrap;gap:8px;align-items:end;margin:0 0 12px}form.in{display:inline-flex;margin:0}
        label{display:grid;gap:2px;font-size:12px;color:var(--muted);flex:1 1 260px}
        input{font:13px ui-monospace,monospace;padding:6px 8px;border:1px solid var(--muted);border-radius:4px;background:var(--panel);\
        color:var(--text);width:100%}
        button{font:13px system-ui,sans-serif;padding:6px 14px;border:1px solid var(--link);border-radius:4px;background:var(--link);\
        color:var(--panel);cursor:pointer}form.in button{padding:0 8px}button.bad{background:var(--bad);border-color:var(--bad)}
        .pages{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 12px}
        .picture{overflow:auto;max-height:80vh;background:var(--panel);border:1px solid var(--edge);border-radius:6px;margin:0 0 16px}
        .picture svg{display:block}.picture rect{fill:var(--bg);stroke:var(--muted)}.picture text{fill:var(--text);font-size:12px}
        .picture .head{fill:var(--link);stroke:var(--link)}.picture .name{fill:var(--panel);font-weight:650}.picture .key{font-weight:650}.picture .type{fill:var(--muted)}
        .picture .edge{fill:none;stroke:var(--muted);stroke-width:1.3}.picture .tip{fill:var(--muted)}
        summary{cursor:pointer;color:var(--link);margin:8px 0}
        @media (max-width:900px){.facts,.charts{grid-template-columns:1fr 1fr}}
        @media (max-width:600px){.charts{grid-template-columns:1fr}header{padding:8px 12px;gap:4px 8px}nav ul{gap:0}nav a{padding:4px 6px}\
        main{padding:12px 12px 32px}.subject{order:1;margin-left:0;flex:1 1 60%}#state{order:2}header b{margin-right:auto}.chart{height:36px}\
        th,td{padding:4px 8px}\
        .facts dd{font-size:15px}}
        """
}
