/// The arguments of a program, which may come from elsewhere than its command line, too.
package struct ProgramArguments: Sendable {
    package let arguments: [String]
    /// Adds to a fault of the arguments where the argument comes from.
    let explain: @Sendable (_ fault: String) -> String

    package init(_ arguments: [String], explain: @escaping @Sendable (_ fault: String) -> String = { $0 }) {
        self.arguments = arguments
        self.explain = explain
    }
}
