import Foundation
import TestSupport

/// One request over a connection of its own, byte for byte as it is given: also such as no browser sends.
struct RawHTTP {
    enum Place {
        case port(UInt16)
        case unix(String)
    }

    struct Answer {
        let status: Int
        /// By their names in lower case.
        let headers: [String: String]
        let body: String
    }

    let place: Place
    /// Sent with each request, unless it has another one of that name.
    var headers: [String: String] = [:]

    func get(_ path: String, _ more: [String: String] = [:]) throws -> Answer { try send("GET", path, more, body: "") }

    func post(_ path: String, _ form: [String: String], _ more: [String: String] = [:]) throws -> Answer {
        var allowed = CharacterSet.alphanumerics
        allowed.insert("-")
        let body = form.map { "\($0)=\($1.addingPercentEncoding(withAllowedCharacters: allowed)!)" }.joined(
            separator: "&")
        return try send("POST", path, more, body: body)
    }

    func send(_ method: String, _ path: String, _ more: [String: String] = [:], body: String = "") throws -> Answer {
        let descriptor = try connected()
        defer { close(descriptor) }
        let headers = headers.merging(more) { $1 }.map { "\($0): \($1)\r\n" }.joined()
        let request =
            "\(method) \(path) HTTP/1.1\r\nConnection: close\r\n\(headers)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        try FileHandle(fileDescriptor: descriptor).write(contentsOf: Data(request.utf8))
        return Self.read(Self.receive(descriptor))
    }

    /// Up to the end of the connection, or of a body whose length is known.
    private static func receive(_ descriptor: Int32) -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            data += buffer[..<count]
            guard let head = data.firstRange(of: Data("\r\n\r\n".utf8)) else { continue }
            let length = String(decoding: data[..<head.lowerBound], as: UTF8.self).firstMatch(
                of: /(?i)content-length: *(\d+)/)
            if let length, let count = Int(length.1), data.count >= head.upperBound + count { break }
        }
        return data
    }

    private func connected() throws -> Int32 {
        switch place {
        case .port(let port):
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            let size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let status = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
            }
            guard status == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            return descriptor
        case .unix(let path):
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let status = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
            }
            guard status == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            return descriptor
        }
    }

    private static func read(_ data: Data) -> Answer {
        let parts = String(decoding: data, as: UTF8.self).split(
            separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        let lines = parts[0].split(separator: "\r\n")
        let headers = lines.dropFirst().map { $0.split(separator: ":", maxSplits: 1) }.map {
            ($0[0].lowercased(), $0[1].drop { $0 == " " })
        }
        let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        return Answer(
            status: status ?? 0, headers: Dictionary(headers.map { ($0.0, String($0.1)) }) { $1 },
            body: parts.count > 1 ? String(parts[1]) : "")
    }
}

extension Programs {
    /// Starts a command that serves pages, and waits for the line that says where.
    ///
    /// - Returns: the words of the line after `on`.
    func startPages(_ arguments: String) throws -> (process: Process, address: String) {
        let file = "pages-\(UUID().uuidString)"
        let process = try start("'\(executable("broker").path)' \(arguments) >'\(path(file))' 2>&1")
        while process.isRunning {
            let text = (try? String(contentsOfFile: path(file), encoding: .utf8)) ?? ""
            if let line = text.split(separator: "\n").first(where: { $0.contains(": ready on ") }), text.hasSuffix("\n")
            {
                return (process, line.components(separatedBy: ": ready on ")[1])
            }
            usleep(10_000)
        }
        throw CocoaError(
            .fileReadUnknown, userInfo: ["text": (try? String(contentsOfFile: path(file), encoding: .utf8)) ?? ""])
    }
}
