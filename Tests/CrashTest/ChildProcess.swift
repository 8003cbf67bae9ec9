import Foundation

/// A process of the round's, killed by its own number, and by the system when this process ends before it.
///
/// To be started on the main thread: what the system watches is the thread.
final class ChildProcess {
    let number: pid_t
    /// The status of wait(2); nil while it runs.
    private(set) var status: Int32?

    /// - Parameters:
    ///   - output: gets its standard output.
    ///   - complaints: the file that its standard error is appended to.
    init(_ words: [String], output: Int32, complaints: String) throws {
        // Fails like the program itself: with a status.
        let all = ["setpriv", "--pdeathsig", "KILL", "--"] + words
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_addopen(&actions, 2, complaints, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        var arguments: [UnsafeMutablePointer<CChar>?] = all.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var number: pid_t = 0
        let code = posix_spawnp(&number, all[0], &actions, nil, &arguments, environ)
        guard code == 0 else {
            throw Difference("\(all.joined(separator: " ")) cannot be started: \(String(cString: strerror(code))).")
        }
        self.number = number
    }

    deinit { kill() }

    /// By SIGKILL; comes back when it is gone.
    func kill() {
        guard status == nil else { return }
        Foundation.kill(number, SIGKILL)
        wait(0)
    }

    func terminate() { if status == nil { Foundation.kill(number, SIGTERM) } }

    /// It runs no longer.
    var hasEnded: Bool {
        if status == nil { wait(WNOHANG) }
        return status != nil
    }

    private func wait(_ options: Int32) {
        var status: Int32 = 0
        var ended = waitpid(number, &status, options)
        while ended == -1, errno == EINTR { ended = waitpid(number, &status, options) }
        if ended == number { self.status = status }
    }
}

extension [ChildProcess?] {
    /// Whether all clients of a round are through; those that are become nil.
    ///
    /// - Throws: ``Difference`` when one gave up.
    mutating func areThrough() throws -> Bool {
        for (number, client) in enumerated() {
            guard let client, client.hasEnded else { continue }
            guard client.status == 0 else {
                throw Difference("Client \(number) gave up; client-\(number).complaints has the reason.")
            }
            self[number] = nil
        }
        return allSatisfy { $0 == nil }
    }
}
