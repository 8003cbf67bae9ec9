import Foundation
import Testing

/// The console's pages in a real browser: what it draws, complains of, and can be done without a mouse.
@Suite(.timeLimit(.minutes(10)), .enabled(if: WebDriver.isInstalled, "takes chromium and chromium-driver"))
struct BrowserTests {
    private static let pages = [
        "/", "/jobs", "/jobs/first-1", "/jobs/%3Cb%3Ebad-1", "/jobs/skipped-1", "/rejected", "/rejected/3000",
        "/rejected/3001", "/clients", "/data", "/data/Employee",
        "/data/Employee?where=nonsense",
        "/data/Department", "/data/Employee/object?key=1", "/data/Employee/object?key=3", "/feed", "/nothing",
    ]

    /// Texts whose contrast with what is behind them is too low: WCAG 2.2, 1.4.3.
    private static let contrast = #"""
        const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
        const light = c => { const p = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]; };
        const behind = e => {
          if (e.ownerSVGElement) {
            const box = e.getBoundingClientRect();
            const rects = [...e.ownerSVGElement.querySelectorAll("rect")].filter(r => { const b = r.getBoundingClientRect();
              return b.left <= box.left + 1 && b.right >= box.right - 1 && b.top <= box.top + 4 && b.bottom >= box.bottom - 4; });
            if (rects.length) return rgba(getComputedStyle(rects.at(-1)).fill);
            e = e.ownerSVGElement;
          }
          for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
          return [255, 255, 255, 1];
        };
        const faults = [];
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
          const element = walker.currentNode.parentElement, style = getComputedStyle(element);
          if (!walker.currentNode.data.trim() || style.visibility !== "visible" || !element.getClientRects().length) continue;
          const color = rgba(element.ownerSVGElement ? style.fill : style.color);
          const [a, b] = [light(color), light(behind(element))].sort((a, b) => b - a);
          const ratio = (a + 0.05) / (b + 0.05);
          if (ratio < 4.5) faults.push(ratio.toFixed(2) + " " + walker.currentNode.data.slice(0, 40));
        }
        return faults.join("\n");
        """#

    /// Faults of the structure that assistive programs read.
    private static let structure = #"""
        const faults = [];
        const need = (selector, count) => { if (document.querySelectorAll(selector).length !== count) faults.push(selector); };
        const header = document.querySelector("header");
        if (header.offsetHeight > 100) faults.push("the header is " + header.offsetHeight + " high");
        need("main", 1); need("nav[aria-label]", 1); need("h1", 1); need("html[lang]", 1); need("a.skip[href='#content']", 1);
        for (const e of document.querySelectorAll("table")) if (!e.caption || !e.caption.textContent) faults.push("a table without a caption");
        for (const e of document.querySelectorAll("th")) if (!e.scope) faults.push("th without scope");
        for (const e of document.querySelectorAll("input:not([type=hidden])")) if (!e.labels.length) faults.push("input without a label");
        for (const e of document.querySelectorAll("a,button")) if (!e.textContent.trim()) faults.push("a link without a text");
        for (const e of document.querySelectorAll("[tabindex='0']")) if (!e.getAttribute("aria-label")) faults.push("a region without a name");
        for (const e of document.querySelectorAll("svg")) if (!e.getAttribute("aria-label")) faults.push("a picture without a name");
        if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the window");
        if (window.hacked || document.querySelector("main script, main b b, main style")) faults.push("a value is markup");
        return faults.join("\n");
        """#

    @Test(arguments: [(1_280, 900, false), (1_280, 900, true), (390, 844, false), (390, 844, true)])
    func `each page is readable at a desk and on a telephone, light and dark`(
        width: Int, height: Int, isDark: Bool
    ) throws {
        let programs = try ConsoleTests.programs()
        let (browser, address) = try Self.open(programs, "--allow-write")
        try browser.show(width: width, height: height, isDark: isDark)
        for path in Self.pages {
            try browser.open(address + path)
            let isMissing = path == "/nothing"
            #expect(try browser.text("return document.querySelector('h1').textContent").isEmpty == false, "\(path)")
            #expect(try browser.text(Self.contrast) == "", "\(path)")
            #expect(try browser.text(Self.structure) == "", "\(path)")
            let background = try browser.text("return getComputedStyle(document.body).backgroundColor")
            #expect(background == (isDark ? "rgb(20, 23, 26)" : "rgb(247, 248, 249)"))
            let complaints = try browser.complaints().filter { !(isMissing && $0.contains("404")) }
            #expect(complaints == [], "\(path)")
            try Self.keep(browser, "\(path.replacing("/", with: "-"))-\(width)\(isDark ? "-dark" : "")")
        }
    }

    @Test func `the checks find what they look for`() throws {
        let programs = try ConsoleTests.programs()
        let (browser, address) = try Self.open(programs)
        try browser.open(address + "/data")
        try browser.run(
            "document.querySelector('h1').style.color = '#999'; document.querySelector('svg text.name').style.fill = '#06a'"
        )
        let contrast = try browser.text(Self.contrast)
        #expect(contrast.contains(" Data") && contrast.split(separator: "\n").count == 2, "\(contrast)")
        try browser.run(
            "document.querySelector('caption').remove(); document.querySelector('main').style.width = '3000px'; window.hacked = 1"
        )
        let faults = try browser.text(Self.structure)
        #expect(faults.split(separator: "\n").count == 3, "\(faults)")
        // The policy stops a script that would come into a page.
        try browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
        try browser.wait(for: "return document.images.length == 1")
        #expect(try browser.complaints().contains { $0.contains("Content Security Policy") })
        #expect(try browser.run("return window.ran === undefined") as? Bool == true)
    }

    @Test func `live pages change by themselves, and keep the focus`() throws {
        let programs = try ConsoleTests.programs()
        let (browser, address) = try Self.open(programs, "--allow-write")
        try browser.open(address + "/feed")
        try browser.wait(for: "return document.getElementById('state').textContent == 'live'")
        try browser.run("document.querySelector('main a').focus()")
        let focus = try browser.text("return document.activeElement.getAttribute('href')")
        let submit = ["submit", "--socket", "broker.sock", "--entity", "Visit", "--id", "seen"]
        #expect(try programs.run("broker", submit, input: #"{"page": "/c"}"#).status == 0)
        try browser.wait(for: "return document.querySelector('main').textContent.includes('seen-1')")
        #expect(try browser.text("return document.activeElement.getAttribute('href')") == focus)
        // Also on a button among others of its name.
        try browser.open(address + "/clients")
        try browser.run("[...document.querySelectorAll('main button')].at(-1).focus()")
        let button = try browser.text("return document.activeElement.getAttribute('aria-label')")
        #expect(button.hasPrefix("Kick "))
        try browser.run("document.querySelector('main table').isOld = true")
        try browser.wait(for: "return !document.querySelector('main table').isOld")
        #expect(try browser.text("return document.activeElement.getAttribute('aria-label')") == button)
        try browser.open(address + "/")
        try browser.wait(for: "return document.getElementById('state').textContent == 'live'")
        #expect(try browser.complaints() == [])
    }

    @Test func `everything is done with the keyboard alone`() throws {
        let programs = try ConsoleTests.programs()
        let (browser, address) = try Self.open(programs, "--allow-write")
        try browser.open(address + "/data/Visit/object?key=2")
        // The link that skips the navigation is the first, and is seen then.
        try browser.press(.tab)
        #expect(try browser.text("return document.activeElement.className") == "skip")
        #expect(try browser.run("return document.activeElement.getBoundingClientRect().left >= 0") as? Bool == true)
        try browser.press(.enter)
        #expect(try browser.text("return document.activeElement.id") == "content")
        // All that can be clicked is reached in its order, with a visible focus.
        try browser.open(address + "/data/Visit/object?key=2")
        let all = "[...document.querySelectorAll('a[href],button,summary,input:not([type=hidden]),[tabindex=\"0\"]')]"
        let count = try #require(try browser.run("return \(all).length") as? Int)
        #expect(count > 8)
        for index in 0..<count {
            try browser.press(.tab)
            #expect(try browser.run("return \(all).indexOf(document.activeElement)") as? Int == index)
            #expect(try browser.text("return getComputedStyle(document.activeElement).outlineStyle") == "solid")
        }
        // The last one is the button that asks what a deletion would do; the next page has the one that does it.
        try browser.press(.enter)
        try browser.wait(for: "return document.body.textContent.includes('What would be done')")
        for _ in 0..<100 where try browser.text("return document.activeElement.textContent") != "Delete now" {
            try browser.press(.tab)
        }
        try browser.press(.enter)
        try browser.wait(for: "return document.body.textContent.includes('What was done')")
        #expect(try browser.complaints() == [])
        let left = try programs.run("broker", ["fetch", "Visit", "--count", "--socket", "broker.sock"])
        #expect(left.output == "1\n")

        // All rejected records: how many they are, and that they are dropped.
        try browser.open(address + "/rejected")
        for (button, after) in [
            ("Drop all …", "Drop 2 rejected records?"), ("Drop now", "2 rejected records dropped"),
        ] {
            for _ in 0..<100 where try browser.text("return document.activeElement.textContent") != button {
                try browser.press(.tab)
            }
            try browser.press(.enter)
            try browser.wait(for: "return document.querySelector('h1').textContent === '\(after)'")
        }

        _ = try programs.start("'\(programs.executable("broker").path)' watch --socket broker.sock")
        let row = "[...document.querySelectorAll('tbody tr')].find(row => row.textContent.includes('broker watch'))"
        try browser.open(address + "/clients")
        try browser.wait(for: "return \(row) !== undefined")
        let kick = try browser.text("return \(row).querySelector('button').getAttribute('aria-label')")
        for _ in 0..<100 where try browser.text("return document.activeElement.ariaLabel") != kick {
            try browser.press(.tab)
        }
        try browser.press(.enter)
        try browser.wait(
            for: "return !document.querySelector('[aria-label=\"\(kick)\"]') && document.readyState == 'complete'")
    }

    /// A browser with the console's cookie.
    static func open(_ programs: Programs, _ options: String = "") throws -> (WebDriver, address: String) {
        let pages = try programs.startPages("console --socket broker.sock --listen 127.0.0.1:0 --no-open \(options)")
        let browser = try WebDriver(programs)
        try browser.open(pages.address)
        #expect(try browser.text("return location.pathname + location.search") == "/")
        return (browser, try #require(pages.address.components(separatedBy: "/?").first))
    }

    /// In the folder that BROKER_SCREENSHOTS names, for people.
    static func keep(_ browser: WebDriver, _ name: String) throws {
        guard let folder = ProcessInfo.processInfo.environment["BROKER_SCREENSHOTS"] else { return }
        let safe = name.filter { $0.isLetter || $0.isNumber || $0 == "-" }
        try browser.screenshot().write(to: URL(fileURLWithPath: "\(folder)/\(safe).png"))
    }
}
