import Foundation
import Glibc
import Synchronization
import TestSupport

/// A server that was made before there were `migrate` and bookmarks: it welcomes clients, completes every job, and refuses
/// every action.
final class OldServer: Sendable {
    private let asked = Mutex<[String]>([])
    private let jobs = Mutex<[String?]>([])

    /// The actions that were asked for, and their `dryRun`.
    var actions: [String] { asked.withLock { $0 } }

    /// The bookmarks of the jobs; nil for a job without one.
    var bookmarks: [String?] { jobs.withLock { $0 } }

    /// Listens until the process ends.
    init(_ path: String) throws {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0, listen(listener, 8) == 0 else { throw Programs.Failure(what: "cannot listen on \(path)") }
        Thread { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                // A client that ends is the end of its connection.
                try? serve(RawClient(descriptor: descriptor))
            }
        }.start()
    }

    private func serve(_ client: RawClient) throws {
        while let message = try client.receive() {
            let tag = message["tag"].map { ",\"tag\":\($0)" } ?? ""
            if let id = message["id"] {
                jobs.withLock { $0.append(message["bookmark"]) }
                try client.send(#"{"type":"completed","id":"\#(id)","sequence":1\#(tag)}"#)
                continue
            }
            guard message.type == "admin" else {
                try client.send(
                    #"{"type":"welcome","version":1,"server":"broker 0.0","journal":false,"role":"write","features":[],"limits":{"#
                        + #""maximumFrameBytes":16777215,"maximumContentBytes":268435456,"maximumDepth":512,"maximumIdBytes":128,"#
                        + #""maximumTagBytes":1024,"jobMemory":134217728,"jobsInFlight":1024,"outcomesKept":1000,"#
                        + #""outcomesKeptSeconds":604800,"outcomesForgottenThrough":0},"entities":[]\#(tag)}"#)
                continue
            }
            asked.withLock { $0.append("\(message["action"] ?? "") \(message["dryRun"] ?? "")") }
            try client.send(
                #"{"type":"error","error":{"code":"unsupportedMessage","message":"There is no action.","path":"/action"},"#
                    + #""frame":2\#(tag)}"#)
        }
    }
}
