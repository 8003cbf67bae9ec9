import Glibc

/// Writes a line to the standard error and ends the process with 1.
func fail(_ message: String) -> Never {
    complain(message)
    exit(1)
}

/// Writes a line to the standard error.
func complain(_ message: String) { write("forgetful-disk: \(message)", to: STDERR_FILENO) }

/// Writes a line to the standard output.
func report(_ line: String) { write(line, to: STDOUT_FILENO) }

private func write(_ line: String, to descriptor: Int32) {
    let bytes = Array("\(line)\n".utf8)
    _ = Glibc.write(descriptor, bytes, bytes.count)
}
