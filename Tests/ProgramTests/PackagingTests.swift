import Foundation
import Testing

/// Installs and packages scripts in the place of Broker's programs, into folders of the test.
@Suite(.timeLimit(.minutes(5))) struct PackagingTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        try FileManager.default.createDirectory(atPath: programs.path("bin"), withIntermediateDirectories: true)
        for name in ["broker", "brokerd", "brokerload"] {
            let help =
                #"{"command": {"commandName": "\#(name)", "abstract": "It.", "discussion": "", "arguments": []}}"#
            try programs.write(
                """
                #!/bin/sh
                case $1 in
                --version) echo 0.1.0-dev ;;
                --experimental-dump-help) echo '\(help)' ;;
                *) echo "# $*" ;;
                esac
                """, to: "bin/\(name)")
            chmod(programs.path("bin/\(name)"), 0o755)
        }
    }

    private func files(_ folder: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: programs.path(folder)).sorted()
    }

    private func run(_ script: String, _ arguments: String..., line: Int = #line) throws -> Programs.Result {
        let result = try programs.runScript(script, arguments)
        #expect(result.status == 0, "line \(line): \(result.complaints)")
        return result
    }

    @Test func `what is installed is removed whole, with what an earlier version had, and nothing else`() throws {
        let root = programs.path("root")
        try FileManager.default.createDirectory(atPath: root + "/opt/x/bin", withIntermediateDirectories: true)
        try programs.write("mine", to: "root/opt/x/bin/mine")
        let options = ["--prefix", "/opt/x", "--destdir", root]
        _ = try run("install", options[0], options[1], options[2], options[3], "--programs", programs.path("bin"))
        let installed = try files("root/opt/x")
        for file in [
            "bin/broker", "share/man/man1/brokerd.1.gz", "share/bash-completion/completions/broker",
            "share/doc/broker/LICENSE", "lib/systemd/system/brokerd.service",
        ] {
            #expect(installed.contains(file), "\(file)")
        }
        let unit = try String(contentsOfFile: root + "/opt/x/lib/systemd/system/brokerd.service", encoding: .utf8)
        #expect(unit.contains("ExecStart=/opt/x/bin/brokerd ") && !unit.contains("/usr/bin/"))
        for name in installed where name.hasPrefix("lib/systemd/system/") {
            // `systemctl help brokerd` opens the page that a unit names.
            let unit = try String(contentsOfFile: root + "/opt/x/" + name, encoding: .utf8)
            let page = try #require(unit.firstMatch(of: /Documentation=man:(\w+)\((\d)\)\n/), "\(name)").output
            #expect(installed.contains("share/man/man\(page.2)/\(page.1).\(page.2).gz"), "\(name)")
        }
        // A file of an earlier version.
        let list = root + "/opt/x/share/broker/files"
        try (String(contentsOfFile: list, encoding: .utf8) + "bin/old\n").write(
            toFile: list, atomically: true, encoding: .utf8)
        try programs.write("old", to: "root/opt/x/bin/old")
        _ = try run("install", options[0], options[1], options[2], options[3], "--programs", programs.path("bin"))
        #expect(try files("root/opt/x") == installed)
        _ = try run("install", "--uninstall", options[0], options[1], options[2], options[3])
        #expect(try files("root/opt/x") == ["bin", "bin/mine"])
    }

    private static let canPackage =
        geteuid() == 0 && ["dpkg", "dpkg-deb", "dpkg-shlibdeps"].allSatisfy { access("/usr/bin/\($0)", X_OK) == 0 }

    @Test(.enabled(if: canPackage, "It needs root, dpkg and dpkg-dev."))
    func `a package is installed, upgraded, removed and purged, and the stores stay until it is asked`() throws {
        var packages: [String] = []
        for revision in ["1", "2"] {
            let made = try run(
                "package", "--programs", programs.path("bin"), "--output", programs.folder, "--revision", revision)
            packages.append(made.output.trimmingCharacters(in: .newlines))
        }
        #expect(packages[0].hasPrefix(programs.path("broker_0.1.0~dev-1_")))
        _ = try programs.shell(
            "mkdir -p root/etc root/var/lib/dpkg/info root/var/lib/dpkg/updates && : > root/var/lib/dpkg/status")
        // The scripts run outside of the root, where there is a shell, and act on it.
        func dpkg(_ arguments: String, _ variable: String = "", line: Int = #line) throws -> Programs.Result {
            let result = try programs.shell(
                "\(variable) dpkg --root='\(programs.path("root"))' --force-script-chrootless --force-depends \(arguments)"
            )
            #expect(result.status == 0, "line \(line): \(result.complaints)")
            return result
        }
        _ = try dpkg("-i '\(packages[0])'")
        #expect(try files("root/usr/bin") == ["broker", "brokerd", "brokerload"])
        _ = try programs.shell("mkdir -p root/var/lib/broker && echo data > root/var/lib/broker/store.sqlite")
        _ = try dpkg("-i '\(packages[1])'")
        #expect(try dpkg("--status broker").output.contains("Version: 0.1.0~dev-2\n"))
        _ = try dpkg("--remove broker")
        #expect(!FileManager.default.fileExists(atPath: programs.path("root/usr")))
        #expect(try dpkg("--purge broker").output.contains("The stores in /var/lib/broker"))
        #expect(try files("root/var/lib/broker") == ["store.sqlite"])
        _ = try dpkg("-i '\(packages[1])'")
        _ = try dpkg("--purge broker", "BROKER_PURGE_STORES=yes")
        #expect(!FileManager.default.fileExists(atPath: programs.path("root/var/lib/broker")))
    }
}
