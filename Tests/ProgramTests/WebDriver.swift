import Foundation
import TestSupport

/// A headless Chromium, over the JSON messages of WebDriver (w3.org/TR/webdriver2) that its driver takes.
final class WebDriver {
    static let isInstalled = ["chromium", "chromedriver"].allSatisfy { program in
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains {
            access("\($0)/\(program)", X_OK) == 0
        }
    }

    /// Named by the protocol.
    enum Key: String {
        case tab = "\u{E004}"
        case enter = "\u{E007}"
    }

    /// Outlives the session, so that the driver ends its browser.
    private let programs: Programs
    private let http: RawHTTP
    private var session = ""

    init(_ programs: Programs) throws {
        self.programs = programs
        let log = programs.path("chromedriver.log")
        let driver = try programs.start("chromedriver --port=0 >'\(log)' 2>&1")
        var port: UInt16?
        while port == nil, driver.isRunning {
            let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            port = text.firstMatch(of: /started successfully on port (\d+)/).flatMap { UInt16($0.1) }
            usleep(10_000)
        }
        http = RawHTTP(place: .port(port ?? 0), headers: ["Host": "localhost", "Content-Type": "application/json"])
        let arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--user-data-dir=\(programs.path("profile"))",
        ]
        let wanted: [String: Any] = [
            "browserName": "chrome", "goog:loggingPrefs": ["browser": "ALL"], "goog:chromeOptions": ["args": arguments],
        ]
        let answer = try send("POST", "/session", ["capabilities": ["alwaysMatch": wanted]]) as? [String: Any]
        session = "/session/\(answer?["sessionId"] as? String ?? "")"
    }

    deinit { _ = try? send("DELETE", session) }

    private func send(_ method: String, _ path: String, _ body: [String: Any] = [:]) throws -> Any? {
        let text =
            method == "POST" ? String(decoding: try JSONSerialization.data(withJSONObject: body), as: UTF8.self) : ""
        let answer = try http.send(method, path, body: text)
        let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
        guard answer.status == 200 else { throw Programs.Failure(what: "\(path): \(answer.body)") }
        return object?["value"]
    }

    func open(_ address: String) throws { _ = try send("POST", session + "/url", ["url": address]) }

    /// The value of a script, whose body returns it.
    @discardableResult func run(_ script: String) throws -> Any? {
        try send("POST", session + "/execute/sync", ["script": script, "args": [Any]()])
    }

    func text(_ script: String) throws -> String { try run(script) as? String ?? "" }

    /// Runs until the script returns true.
    func wait(for script: String) throws { while try run(script) as? Bool != true { usleep(20_000) } }

    func press(_ keys: Key...) throws {
        let actions = keys.flatMap { key in ["keyDown", "keyUp"].map { ["type": $0, "value": key.rawValue] } }
        _ = try send(
            "POST", session + "/actions", ["actions": [["type": "key", "id": "keyboard", "actions": actions]]])
    }

    func show(width: Int, height: Int, isDark: Bool) throws {
        try command(
            "Emulation.setDeviceMetricsOverride",
            ["width": width, "height": height, "deviceScaleFactor": 1, "mobile": false])
        let scheme = ["name": "prefers-color-scheme", "value": isDark ? "dark" : "light"]
        try command("Emulation.setEmulatedMedia", ["features": [scheme]])
    }

    private func command(_ name: String, _ parameters: [String: Any]) throws {
        _ = try send("POST", session + "/goog/cdp/execute", ["cmd": name, "params": parameters])
    }

    func screenshot() throws -> Data {
        Data(base64Encoded: try send("GET", session + "/screenshot") as? String ?? "") ?? Data()
    }

    /// What the browser complained of since the last call.
    func complaints() throws -> [String] {
        let log = try send("POST", session + "/se/log", ["type": "browser"]) as? [[String: Any]] ?? []
        return log.filter { $0["level"] as? String != "INFO" }.compactMap { $0["message"] as? String }
    }
}
