/// An entry of a log that is no job: a store that applies it, or refuses it, moves to its position.
package struct LogMark: Sendable {
    package let position: Int64
    /// In milliseconds since 1970.
    package let time: Int64
    package let content: [UInt8]

    package init(position: Int64, time: Int64, content: [UInt8]) {
        self.position = position
        self.time = time
        self.content = content
    }
}
