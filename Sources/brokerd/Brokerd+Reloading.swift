import BrokerCommandLine
import BrokerCoordinator
import BrokerModel
import BrokerServer
import BrokerStaging
import Logging

extension Brokerd {
    /// The action of SIGHUP and `admin reload`: the model's files are read again, and applied completely or not at all.
    /// Every change, or the reason why the old model stays, is logged.
    func reloading(
        _ coordinator: Coordinator, _ service: ServiceNotifier, _ logger: Logger
    ) -> @Sendable (_ notify: @escaping @Sendable (ReloadEnd) -> Void) -> Void {
        let model = model
        return { notify in
            service.reloadBegan()
            coordinator.reload {
                Self.read(model)
            } notify: { result in
                switch result {
                case .success(let migration):
                    let lines = migration.lines
                    for line in lines { logger.notice("\(line)") }
                    logger.notice("The model was reloaded, and is in effect.")
                    notify(.applied(lines))
                    service.reloadEnded(nil)
                case .failure(let fault):
                    logger.error("The model could not be reloaded, and the old one stays in effect: \(fault.message)")
                    notify(.refused(fault))
                    service.reloadEnded(fault.message)
                }
            }
        }
    }

    private static func read(_ paths: [String]) -> Result<StagingPlan, Fault> {
        let file = ModelFile(paths)
        do throws(ModelError) {
            return .success(try StagingPlan(ModelReader.read(try file.document())))
        } catch {
            let faults = error.faults.map(\.description).joined(separator: "; ")
            return .failure(Fault(.validationFailed, "The model \(file.name) cannot be used: \(faults)"))
        }
    }
}
