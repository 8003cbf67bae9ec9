import Foundation

/// The files of the repository that the tests belong to.
enum Repository {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func text(of path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The fenced code blocks of a Markdown page, each with its line breaks.
    static func codeBlocks(of path: String) throws -> [(language: String, text: String)] {
        var blocks: [(language: String, text: String)] = []
        var isOpen = false
        for line in try text(of: path).components(separatedBy: "\n") {
            if line.hasPrefix("```") {
                isOpen.toggle()
                if isOpen { blocks.append((String(line.dropFirst(3)), "")) }
            } else if isOpen {
                blocks[blocks.count - 1].text += line + "\n"
            }
        }
        return blocks
    }
}
