extension Program {
    /// A number and its noun, as in "1 entity" and "2 entities".
    ///
    /// - Parameter plural: nil for the noun with an s.
    package static func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
    }
}
