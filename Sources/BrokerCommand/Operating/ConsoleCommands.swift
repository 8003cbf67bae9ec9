import ArgumentParser
import BrokerClient
import BrokerCommandLine
import BrokerConsole
import Foundation
import Glibc

extension ListenAddress: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

/// The name of a server in its measurements.
struct InstanceOption: ParsableArguments {
    @Option(
        help: .value(
            "name",
            "The server's name in the measurements (label instance). Default: that of the socket's or the store's file."
        ))
    var instance: String?

    func name(for connection: ConnectionOptions) -> String {
        instance
            ?? PrometheusText.instance(
                ofSocket: connection.store ?? ConnectionOptions.path(ofSocket: connection.socket))
    }
}

struct ExporterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exporter", abstract: "Serves a server's measurements over HTTP, for Prometheus and for probes.",
        discussion: """
            GET /metrics has the text of `broker stats --format prometheus`, asked from the server at each request, and broker_up: 0, \
            alone, when the server does not answer. GET /healthz has the line of `broker health`, with ?format=json its object; the \
            status is 200 for serving, else 503. It needs no server to begin. Without --timeout, the server has 5 seconds.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: .value("address", "Where to serve: an address of this machine and a port, or unix:PATH."))
    var listen = ListenAddress.port(host: "127.0.0.1", 9750)

    @OptionGroup var instance: InstanceOption

    mutating func validate() throws { try connection.requireServer("Only a server is measured") }

    func run() async throws {
        let client = connection.lazyClient("broker exporter")
        defer { client.close() }
        try await Exporter(client, instance: instance.name(for: connection)).run(on: listen) { address in
            try Program.say("broker exporter: ready on \(address)")
        }
    }
}

struct ConsoleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console", abstract: "Serves a server or a store as web pages on this machine, and opens them.",
        discussion: """
            What the server does and did in the last hour, its jobs, the model and all objects, and the commits as they come. The pages \
            work without JavaScript; with it, they are live. With --store, there are the objects alone.
            Only a browser of this machine that was opened with the printed address gets pages. They change nothing, unless \
            --allow-write is given: then they pause, cancel, kick and delete, as far as the role of this user allows.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: .value("address", "Where to serve: a loopback address and a port (0 for any), or unix:PATH."))
    var listen = ListenAddress.port(host: "127.0.0.1", 8080)

    @Flag(inversion: .prefixedNo, help: "Open a browser, where there is a display.")
    var open = true

    @Flag(
        help:
            "Add forms that pause and resume merging, cancel a job, end a connection, or delete an object after a dry run."
    )
    var allowWrite = false

    mutating func validate() throws {
        guard listen.isLocal else {
            throw ValidationError(
                "--listen \(listen): other machines could read the store there. Give a loopback address, as 127.0.0.1:8080, or "
                    + "unix:PATH, and reach it from elsewhere by `ssh -L`.")
        }
    }

    func run() async throws {
        // A signal ends the process, and leaves no file of a socket.
        let clean: @Sendable () -> Void = { [listen] in if case .unix(let path) = listen { unlink(path) } }
        if let store = connection.store {
            try await connection.connected("broker console", isReading: !allowWrite, onInterruption: clean) { client in
                try await serve(Console(client, subject: store, watcher: nil, mayWrite: allowWrite))
            }
        } else {
            let interruption = Interruption(clean)
            defer { withExtendedLifetime(interruption) {} }
            // A long fetch delays no measurement.
            let client = connection.lazyClient("broker console", patience: .seconds(50))
            let watcher = connection.lazyClient("broker console")
            defer {
                client.close()
                watcher.close()
            }
            let socket = ConnectionOptions.path(ofSocket: connection.socket)
            try await serve(Console(client, subject: socket, watcher: watcher, mayWrite: allowWrite))
        }
    }

    private func serve(_ console: Console) async throws {
        try await console.run(on: listen) { [listen, open] address in
            try Program.say("broker console: ready on \(address)")
            if case .unix = listen { return }
            if open { Self.open(address) }
        }
    }

    /// Where there is a display; without a browser, the address was printed.
    private static func open(_ address: String) {
        guard getenv("DISPLAY") != nil || getenv("WAYLAND_DISPLAY") != nil else { return }
        let browser = Process()
        browser.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        browser.arguments = ["xdg-open", address]
        browser.standardOutput = FileHandle.nullDevice
        browser.standardError = FileHandle.nullDevice
        try? browser.run()
    }
}

extension ListenAddress {
    public var defaultValueDescription: String { description }
}
