# Runs the Redmine of Debian's package with the files of `cargo xtask tracker-chaos`:
#
#   redmine.rb migrate       creates the tables
#   redmine.rb fill          adds the default data, two users with their keys, and a project
#   redmine.rb serve PORT

require '/usr/share/redmine/config/environment'

def fill
  Rake::Task['redmine:load_default_data'].invoke
  Setting.rest_api_enabled = '1'
  Setting.notified_events = []
  person = User.find_by!(login: 'admin')
  person.update_column(:must_change_passwd, false)
  vik = User.new(firstname: 'Vik', lastname: 'Daemon', mail: 'vik@example.invalid')
  vik.login = 'vik'
  vik.random_password
  vik.save!
  { person => 'PERSON_KEY', vik => 'VIK_KEY' }.each do |user, name|
    Token.create!(user: user, action: 'api').update_column(:value, ENV.fetch(name))
  end
  project = Project.create!(name: 'Chaos', identifier: 'chaos', trackers: Tracker.all.to_a,
                            enabled_module_names: ['issue_tracking'])
  # The first role of the default data may move an issue from each status to each other one.
  Member.create!(project: project, principal: vik, roles: [Role.givable.first])
end

if ARGV[0] == 'serve'
  require 'rack/handler/webrick'
  Rack::Handler::WEBrick.run(Rails.application, BindAddress: '127.0.0.1', Port: ARGV[1].to_i)
else
  require 'rake'
  Rails.application.load_tasks
  ARGV[0] == 'fill' ? fill : Rake::Task['db:migrate'].invoke
end
