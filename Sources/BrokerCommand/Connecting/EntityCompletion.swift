import ArgumentParser
import BrokerCommandLine
import BrokerStaging

extension CompletionKind {
    /// The entities of the model that the arguments name: the files of `--model`, else the store of `--store`, else the
    /// server. None when there is no such model: a shell shows no errors while a line is typed.
    static let entity = CompletionKind.custom { words, _, beginning in
        EntityCompletion(words).names.filter { $0.hasPrefix(beginning) }
    }
}

/// The entities that can complete a command line.
struct EntityCompletion {
    private let words: [String]

    init(_ words: [String]) { self.words = words }

    var names: [String] {
        let models = values(of: "--model")
        if !models.isEmpty { return names(of: try? ModelFile(models).plan()) }
        if let store = values(of: "--store").last { return names(of: try? LocalModel(ofStore: store)?.silentPlan()) }
        return ServerEntities.names(ofSocket: ConnectionOptions.path(ofSocket: values(of: "--socket").last))
    }

    private func names(of plan: StagingPlan?) -> [String] { plan?.model.entities.map(\.name) ?? [] }

    /// The values of an option, given as `--option value` or `--option=value`.
    private func values(of option: String) -> [String] {
        words.indices.compactMap { index in
            let word = words[index]
            if word.hasPrefix(option + "=") { return String(word.dropFirst(option.count + 1)) }
            guard word == option, words.indices.contains(index + 1) else { return nil }
            return words[index + 1]
        }
    }
}
